import type { JSX } from "preact";
import { query, rights } from "../files/folder";
import { folderAddress, follow, route, screenAddress, type Screen } from "../route";
import { t } from "../text";
import { canSync, needYou } from "../live/folders";
import { needsYou } from "../transfer/queue";
import { Icon, Mark, type IconName } from "./Icon";
import { searchOpen } from "./search";

export function Top(): JSX.Element {
  const words = t();
  const { volume, path, screen } = route.value;
  const searchable = screen === "files" && volume !== undefined;
  const folder = path.at(-1) ?? volume ?? "";
  return (
    <header class={`top ${searchOpen.value ? "searching" : ""}`}>
      <a class="brand" href={folderAddress(undefined, [])} onClick={follow}>
        <Mark />
        <span>Deltic</span>
      </a>
      <nav class="nav" aria-label={words.nav}>
        <Tab to="files" icon="folder" label={words.files} />
        <Tab to="transfers" icon="moves" label={words.transfers} count={needsYou.value} />
        {canSync() && <Tab to="synced" icon="again" label={words.synced} count={needYou.value} wide />}
        {rights.value?.share && <Tab to="shared" icon="link" label={words.shared} wide />}
        {rights.value?.admin && <Tab to="server" icon="disk" label={words.server} wide />}
        <Tab to="settings" icon="gear" label={words.settings} phone />
      </nav>
      <div class="tools">
        {searchable && (
          <label class="search">
            <Icon is="search" />
            <input
              class="in"
              id="search"
              type="search"
              placeholder={words.search}
              aria-label={words.searchIn(folder)}
              aria-keyshortcuts="/"
              value={query}
              onInput={(event) => (query.value = event.currentTarget.value)}
              onBlur={() => (searchOpen.value = query.value !== "")}
            />
            <kbd aria-hidden="true">/</kbd>
          </label>
        )}
        {searchable && (
          <button
            class="btn ghost icon phone-only"
            aria-label={words.search}
            onClick={() => {
              searchOpen.value = true;
              requestAnimationFrame(() => document.getElementById("search")?.focus());
            }}
          >
            <Icon is="search" kind="large" />
          </button>
        )}
        <a class="btn ghost icon wide" href={screenAddress("settings")} onClick={follow} aria-label={words.settings}>
          <Icon is="gear" kind="large" />
        </a>
      </div>
    </header>
  );
}

interface TabProps {
  to: Screen;
  icon: IconName;
  label: string;
  count?: number;
  phone?: boolean;
  /** True for a tab that phones do not show. On phones, the settings have a link to the screen. */
  wide?: boolean;
}

function Tab({ to, icon, label, count = 0, phone = false, wide = false }: TabProps): JSX.Element {
  const { screen } = route.value;
  const current = screen === to || (to === "files" && OF_FILES.includes(screen)) || (phone && OF_SETTINGS.includes(screen));
  return (
    <a
      class={phone ? "phone-only" : wide ? "wide" : ""}
      href={screenAddress(to)}
      onClick={follow}
      aria-current={current ? "page" : undefined}
    >
      <Icon is={icon} />
      <span data-t={label}>{label}</span>
      {count > 0 && (
        <span class="badge ask" aria-label={t().needYou(count)}>
          {count > 99 ? "99+" : count}
        </span>
      )}
    </a>
  );
}

/** Screens of a file or folder, which belong to the tab of the files. */
const OF_FILES: readonly Screen[] = ["preview", "versions", "deleted", "past"];
/** Screens that phones reach from the settings. */
const OF_SETTINGS: readonly Screen[] = ["synced", "shared", "server", "lab"];
