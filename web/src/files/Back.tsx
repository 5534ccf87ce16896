import type { JSX } from "preact";
import { follow, route, screenAddress } from "../route";
import { shown } from "../transfer/names";
import { Icon } from "../ui/Icon";

/** A link from a screen back to the folder. */
export function Back(): JSX.Element {
  const { volume, path } = route.value;
  return (
    <a class="btn ghost" href={screenAddress("files")} onClick={follow}>
      <Icon is="folder" />
      <bdi>{shown(path.at(-1) ?? volume ?? "")}</bdi>
    </a>
  );
}
