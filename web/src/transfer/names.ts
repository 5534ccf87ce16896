/** Functions that split, show and make names of files. */

/** Splits a name into stem and ending. The ending includes the dot. Names like `.profile` have no ending. */
export function parts(name: string): { stem: string; ending: string } {
  const at = name.lastIndexOf(".");
  const ending = at > 0 ? name.slice(at) : "";
  return /^\.[A-Za-z0-9]{1,12}$/.test(ending) ? { stem: name.slice(0, at), ending } : { stem: name, ending: "" };
}

/** Returns a name for a second version of the file `name`, with the date and the time. */
export function otherName(name: string, now: Date): string {
  const { stem, ending } = parts(name);
  const two = (n: number) => String(n).padStart(2, "0");
  const day = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  // No colon and no slash: every file system takes this name.
  return `${stem} (${day} ${two(now.getHours())}.${two(now.getMinutes())}.${two(now.getSeconds())})${ending}`;
}

/**
 * Returns a name in a form that is safe to show. U+FFFD replaces invisible characters, and characters that change the
 * direction of the text. So a name cannot pose as another name.
 */
export function shown(name: string): string {
  return name.replace(/[\p{Cc}\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]/gu, "\ufffd");
}
