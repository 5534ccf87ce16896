/** The message at the bottom of the page: the result of an action, with an undo button if the action can be undone. */
import { signal } from "@preact/signals";

export interface Message {
  text: string;
  kind: "plain" | "bad";
  action?: { label: string; run: () => void };
}

export const message = signal<Message | undefined>(undefined);

let timer: ReturnType<typeof setTimeout> | undefined;

export function say(text: string, kind: Message["kind"] = "plain", action?: Message["action"]): void {
  clearTimeout(timer);
  message.value = action ? { text, kind, action } : { text, kind };
  timer = setTimeout(() => (message.value = undefined), kind === "bad" || action ? LONG : SHORT);
}

export function hush(): void {
  clearTimeout(timer);
  message.value = undefined;
}

const SHORT = 6_000;
const LONG = 20_000;
