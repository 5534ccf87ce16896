/** Files and folders dropped anywhere on the window go into the open folder, or into the folder under the pointer. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { route } from "../route";
import { t } from "../text";
import { dropped, pickedFiles } from "../transfer/sources";
import { Icon } from "../ui/Icon";
import { add } from "./actions";
import { here, rows, volume } from "./folder";

/** The folder under the pointer while something is dragged. */
export const dropTarget = signal<string | undefined>(undefined);
const dragged = signal<number | undefined>(undefined);

export function DropZone(): JSX.Element | null {
  useEffect(() => {
    // Enter and leave come for each element that the pointer crosses.
    let depth = 0;
    const isFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const end = () => {
      depth = 0;
      dragged.value = undefined;
      dropTarget.value = undefined;
    };
    const listeners: Record<string, (event: DragEvent) => void> = {
      dragenter: (event) => {
        if (!isFiles(event)) return;
        event.preventDefault();
        depth++;
        dragged.value = event.dataTransfer!.items.length;
      },
      dragover: (event) => {
        if (!isFiles(event)) return;
        event.preventDefault();
        event.dataTransfer!.dropEffect = canDrop() ? "copy" : "none";
        const row = canDrop() ? (event.target as Element).closest?.("[data-dir]") : undefined;
        dropTarget.value = row ? rows.value[Number(row.getAttribute("data-dir"))]?.name : undefined;
      },
      dragleave: (event) => {
        if (isFiles(event) && --depth <= 0) end();
      },
      drop: (event) => {
        if (!isFiles(event)) return;
        event.preventDefault();
        const into = dropTarget.value;
        end();
        if (!canDrop()) return;
        const { sources, name } = dropped(event.dataTransfer!);
        const to = here.value!;
        add(sources, name, into === undefined ? to : { ...to, path: [...to.path, into] });
      },
    };
    const paste = (event: ClipboardEvent) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length && canDrop()) add(pickedFiles(files), files[0]!.name);
    };
    for (const [name, listener] of Object.entries(listeners)) addEventListener(name, listener as EventListener);
    addEventListener("paste", paste);
    return () => {
      for (const [name, listener] of Object.entries(listeners)) removeEventListener(name, listener as EventListener);
      removeEventListener("paste", paste);
    };
  }, []);

  if (dragged.value === undefined) return null;
  const words = t();
  const { volume: name, path } = route.value;
  const into = dropTarget.value ?? path.at(-1) ?? name ?? "";
  return (
    <div class={`drop ${canDrop() ? "" : "no"}`}>
      <div>
        <span class="ico">
          <Icon is="up" kind="large" />
        </span>
        <b>{canDrop() ? words.dropInto(into) : words.dropNowhere}</b>
        <span class="small soft">{canDrop() ? words.dropHelp(dragged.value) : words.dropNowhereHelp}</span>
      </div>
    </div>
  );
}

const canDrop = (): boolean => here.value !== undefined && volume.value?.write === true;
