import { signal } from "@preact/signals";

/** True if a narrow screen shows the search field. */
export const searchOpen = signal(false);
