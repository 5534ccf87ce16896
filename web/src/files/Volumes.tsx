import type { JSX } from "preact";
import type { Volume } from "../api/volumes";
import { folderAddress, follow } from "../route";
import { t } from "../text";
import { Icon } from "../ui/Icon";
import { Name } from "../ui/Name";
import { volumeList } from "./folder";

export function Volumes(): JSX.Element {
  const words = t();
  const list = volumeList.value;
  return (
    <div class="page narrow">
      <div class="head">
        <h1>{words.volumes}</h1>
      </div>
      {list?.length === 0 && <p class="soft">{words.noVolumes}</p>}
      {list && list.length > 0 && (
        <ul class="card vols">
          {list.map((volume) => (
            <li key={volume.name}>
              <a href={folderAddress(volume.name, [])} onClick={follow}>
                <Icon is="disk" kind="large" />
                <Name of={volume.name} />
                {rights(volume) && <span class="tag">{rights(volume)}</span>}
                {volume.bytes && <span class="push soft">{words.used(volume.bytes.used, volume.bytes.quota)}</span>}
              </a>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function rights({ read, write }: Volume): string {
  if (read && write) return "";
  return read ? t().readOnly : t().writeOnly;
}
