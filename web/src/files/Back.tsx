import type { JSX } from "preact";
import { follow, route, screenAddress } from "../route";
import { shown } from "../transfer/names";
import { Icon } from "../ui/Icon";

/** The way back to the folder that a screen stands over. */
export function Back(): JSX.Element {
  const { volume, path } = route.value;
  return (
    <a class="btn ghost" href={screenAddress("files")} onClick={follow}>
      <Icon is="folder" />
      <bdi>{shown(path.at(-1) ?? volume ?? "")}</bdi>
    </a>
  );
}
