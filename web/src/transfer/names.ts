/** Names of files, as they are taken apart, shown and made up. */

/** The stem and the ending of a name. The ending has its dot; names like `.profile` have none. */
export function parts(name: string): { stem: string; ending: string } {
  const at = name.lastIndexOf(".");
  const ending = at > 0 ? name.slice(at) : "";
  return /^\.[A-Za-z0-9]{1,12}$/.test(ending) ? { stem: name.slice(0, at), ending } : { stem: name, ending: "" };
}

/** A name beside `name` for a second version of its file. */
export function otherName(name: string, now: Date): string {
  const { stem, ending } = parts(name);
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  // No colon and no slash: every file system takes this name.
  return `${stem} (${day} ${two(now.getHours())}.${two(now.getMinutes())}.${two(now.getSeconds())})${ending}`;
}

/**
 * The name as it may be shown: characters that print nothing, or turn the direction of the text, become a mark. A name
 * with such a character cannot pose as another.
 */
export function shown(name: string): string {
  return name.replace(/[\p{Cc}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]/gu, "\ufffd");
}
