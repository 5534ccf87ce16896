/** Icons: a grid of 20 px, drawn with a stroke of 1.5 px at 16 px. */
import type { JSX } from "preact";

const shapes = {
  folder: () => <path d="M2.5 5.5a1 1 0 0 1 1-1h4l2 2h7a1 1 0 0 1 1 1v7.5a1 1 0 0 1-1 1h-13a1 1 0 0 1-1-1z" />,
  file: () => <path d="M5 2.5h6.5l4 4v11H5zM11.5 2.5v4h4" />,
  text: () => <path d="M5 2.5h6.5l4 4v11H5zM11.5 2.5v4h4M7.5 10.5h5M7.5 13.5h3" />,
  table: () => (
    <>
      <rect x="3" y="4" width="14" height="12.5" rx="1" />
      <path d="M3 8.5h14M8 8.5v8" />
    </>
  ),
  picture: () => (
    <>
      <rect x="2.5" y="4" width="15" height="12" rx="1" />
      <path d="m3 14 4-4 3.5 3.5L13 11l4 4" />
      <circle class="dot" cx="13" cy="7.5" r="1.2" />
    </>
  ),
  video: () => (
    <>
      <rect x="2.5" y="4" width="15" height="12" rx="1" />
      <path d="m8.5 7.5 4 2.5-4 2.5z" />
    </>
  ),
  sound: () => (
    <>
      <path d="M7.5 15V4.5l8-1.5v10" />
      <circle cx="5.5" cy="15" r="2" />
      <circle cx="13.5" cy="13" r="2" />
    </>
  ),
  pack: () => (
    <>
      <rect x="3" y="3" width="14" height="4" rx="1" />
      <path d="M4 7v9a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1V7M8 10.5h4" />
    </>
  ),
  disk: () => (
    <>
      <ellipse cx="10" cy="5" rx="6.5" ry="2.5" />
      <path d="M3.5 5v10c0 1.4 2.9 2.5 6.5 2.5s6.5-1.1 6.5-2.5V5M3.5 10c0 1.4 2.9 2.5 6.5 2.5s6.5-1.1 6.5-2.5" />
    </>
  ),
  search: () => (
    <>
      <circle cx="9" cy="9" r="5.5" />
      <path d="m13 13 4.5 4.5" />
    </>
  ),
  up: () => <path d="M10 13.5v-10M6 7.5l4-4 4 4M3.5 13.5v3h13v-3" />,
  down: () => <path d="M10 3.5v10M6 9.5l4 4 4-4M3.5 13.5v3h13v-3" />,
  moves: () => <path d="M6.5 16.5v-13M3 7l3.5-3.5L10 7M13.5 3.5v13M10 13l3.5 3.5L17 13" />,
  pause: () => <path d="M7 4.5v11M13 4.5v11" />,
  go: () => <path d="M6 4v12l10-6z" />,
  x: () => <path d="m5 5 10 10M15 5 5 15" />,
  check: () => <path d="m4 10.5 4 4 8-9" />,
  warn: () => (
    <>
      <path d="M10 3 2.5 16.5h15zM10 8v4" />
      <circle class="dot" cx="10" cy="14.3" r=".9" />
    </>
  ),
  clock: () => <path d="M3.6 7.5A7 7 0 1 1 3 11M3 4v4h4M10 6v4.5l3 1.5" />,
  again: () => <path d="M16.5 8A7 7 0 1 0 17 11.5M16.8 3.8V8h-4.2" />,
  link: () => (
    <path d="M8.5 11.5a3 3 0 0 0 4.3 0l3-3a3 3 0 0 0-4.3-4.3l-.8.8M11.5 8.5a3 3 0 0 0-4.3 0l-3 3a3 3 0 0 0 4.3 4.3l.8-.8" />
  ),
  more: () => (
    <>
      <circle class="dot" cx="4.5" cy="10" r="1.4" />
      <circle class="dot" cx="10" cy="10" r="1.4" />
      <circle class="dot" cx="15.5" cy="10" r="1.4" />
    </>
  ),
  turn: () => <path d="m7.5 4.5 5.5 5.5-5.5 5.5" />,
  open: () => <path d="M4.5 7.5 10 13l5.5-5.5" />,
  shut: () => <path d="M4.5 12.5 10 7l5.5 5.5" />,
  plus: () => <path d="M10 4v12M4 10h12" />,
  bin: () => <path d="M3.5 5.5h13M8 5.5v-2h4v2M5 5.5l.8 11.5h8.4L15 5.5M8.5 9v4.5M11.5 9v4.5" />,
  copy: () => (
    <>
      <rect x="7" y="7" width="10" height="10" rx="1" />
      <path d="M4 13H3V3h10v1" />
    </>
  ),
  pen: () => <path d="m12.5 4.5 3 3L7 16l-3.8.8L4 13zM11 6l3 3" />,
  gear: () => (
    <>
      <path d="M3 6h7M14 6h3M3 14h3M10 14h7" />
      <circle cx="12" cy="6" r="2" />
      <circle cx="8" cy="14" r="2" />
    </>
  ),
} satisfies Record<string, () => JSX.Element>;

export type IconName = keyof typeof shapes;

export function Icon({ is, kind = "" }: { is: IconName; kind?: string }): JSX.Element {
  return (
    <svg class={`i ${kind}`} viewBox="0 0 20 20" aria-hidden="true">
      {shapes[is]()}
    </svg>
  );
}

export function Mark(): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M16 3 2 29h13l7.5-13.93z" fill="currentColor" />
      <path d="M17 29l6.5-12.07L26 21.57 22 29z" fill="currentColor" opacity=".42" />
      <path class="n" d="M24 29l3-5.57L30 29z" />
    </svg>
  );
}

/** Returns the icon for a file by the name's ending. The ending is only a hint about the content. */
export function iconOf(type: "file" | "dir" | "symlink" | "special", ending: string): IconName {
  if (type === "dir") return "folder";
  if (type === "symlink") return "link";
  return byEnding[ending.slice(1).toLowerCase()] ?? "file";
}

const byEnding: Record<string, IconName> = Object.fromEntries(
  (
    [
      ["text", "txt md pdf doc docx odt rtf tex epub log"],
      ["table", "ods xls xlsx csv tsv numbers"],
      ["picture", "jpg jpeg png gif webp avif svg heic tif tiff bmp raw"],
      ["video", "mp4 mkv mov webm avi m4v"],
      ["sound", "mp3 flac wav ogg opus m4a aac"],
      ["pack", "zip gz xz zst tar 7z rar bz2 mbox jar"],
      ["disk", "db sqlite qcow2 img iso vmdk vdi"],
    ] as const
  ).flatMap(([icon, endings]) => endings.split(" ").map((ending) => [ending, icon])),
);
