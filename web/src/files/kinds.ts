/** Kinds of files that the page can show, by the endings of names. An ending does not prove the kind of the content. */
import { parts } from "../transfer/names";

export type Kind = "text" | "picture" | "sound" | "video";

/** Returns the kind of preview for a name; undefined without a preview. */
export const previewOf = (name: string): Kind | undefined => byEnding.get(parts(name).ending.slice(1).toLowerCase());

const byEnding = new Map<string, Kind>(
  (
    [
      ["text", "txt md log csv tsv json yaml yml toml ini conf xml svg html htm css js ts tsx py rs go c h cpp java sh sql tex diff patch"],
      ["picture", "jpg jpeg jfif png gif webp avif bmp ico"],
      ["sound", "mp3 m4a aac ogg oga opus wav flac"],
      ["video", "mp4 m4v mov webm ogv mkv"],
    ] as const
  ).flatMap(([kind, endings]) => endings.split(" ").map((ending): [string, Kind] => [ending, kind])),
);
