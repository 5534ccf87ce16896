/** The theme of the page: light, dark, or the system's theme. */
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

export const theme = signal<Theme>(kept());

export function startTheme(): void {
  effect(() => {
    if (theme.value === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme.value;
    localStorage.setItem("deltic.theme", theme.value);
  });
}

function kept(): Theme {
  const value = localStorage.getItem("deltic.theme");
  return value === "light" || value === "dark" ? value : "system";
}
