import { signal } from "@preact/signals";

/** Whether the field for searching is shown where the screen is narrow. */
export const searchOpen = signal(false);
