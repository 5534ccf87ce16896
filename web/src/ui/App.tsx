import { useSignal, useSignalEffect } from "@preact/signals";
import type { ComponentType, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Files } from "../files/Files";
import { FileDialogs } from "../files/Dialogs";
import { Deleted } from "../files/Deleted";
import { Past } from "../files/Past";
import { Preview } from "../files/Preview";
import { Versions } from "../files/Versions";
import { Synced } from "../live/Synced";
import { Server } from "../share/Server";
import { Shared } from "../share/Shared";
import { DropZone } from "../files/Drop";
import { Volumes } from "../files/Volumes";
import { route } from "../route";
import { token } from "../session";
import { t } from "../text";
import { questions } from "../transfer/conflicts";
import { asksBeforeClosing } from "../transfer/queue";
import { ConflictDialog } from "./Conflict";
import { Hatch } from "./ChangeStrip";
import { Line } from "./Line";
import { Settings } from "./Settings";
import { SignIn } from "./SignIn";
import { Top } from "./Top";
import { Transfers } from "./Transfers";

export function App(): JSX.Element {
  useSignalEffect(() => {
    document.documentElement.lang = t().lang;
    document.title = token.value ? title() : t().page(t().signIn);
  });
  useEffect(() => {
    // Transfers with a handle continue at the next visit. Without a handle, the user must choose the file again.
    const guard = (event: BeforeUnloadEvent) => {
      if (asksBeforeClosing()) event.preventDefault();
    };
    addEventListener("beforeunload", guard);
    return () => removeEventListener("beforeunload", guard);
  }, []);

  if (!token.value) return <SignIn />;
  return (
    <div class="shell">
      <Hatch />
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        {t().skip}
      </a>
      <Top />
      <main class="main" id="main" tabIndex={-1}>
        <Body />
      </main>
      <Line />
      <DropZone />
      <FileDialogs />
      {questions.value[0] && <ConflictDialog key={questions.value[0].item.to.path.join("/")} />}
    </div>
  );
}

function Body(): JSX.Element {
  const { screen, volume, path, name } = route.value;
  const file = name === undefined || volume === undefined ? undefined : { volume, path: [...path, name] };
  // The key makes a new screen for each file, so no content of the last file appears under a new name.
  const key = file?.path.join("/");
  if (file) return screen === "versions" ? <Versions at={file} key={key} /> : <Preview at={file} key={key} />;
  switch (screen) {
    case "deleted":
      return volume ? <Deleted key={[volume, ...path].join("/")} /> : <Volumes />;
    case "past":
      return volume ? <Past key={[volume, ...path].join("/")} /> : <Volumes />;
    case "transfers":
      return <Transfers />;
    case "synced":
      return <Synced />;
    case "settings":
      return <Settings />;
    case "shared":
      return <Shared />;
    case "server":
      return <Server />;
    case "lab":
      return <LazyLab />;
    default:
      return volume ? <Files /> : <Volumes />;
  }
}

/** The lab, which few visitors open, comes when it is opened. */
function LazyLab(): JSX.Element {
  const loaded = useSignal<{ Lab: ComponentType } | "missing" | undefined>(undefined);
  useEffect(() => {
    import("../lab/Lab").then(
      ({ default: Lab }) => (loaded.value = { Lab }),
      () => (loaded.value = "missing"),
    );
  }, []);
  if (loaded.value === undefined) return <div class="page" />;
  if (loaded.value === "missing") return <p class="page">{t().labMissing}</p>;
  const { Lab } = loaded.value;
  return <Lab />;
}

function title(): string {
  const { screen, volume, path, name } = route.value;
  if (name !== undefined) return t().page(name);
  if (screen === "transfers" || screen === "synced" || screen === "settings" || screen === "shared" || screen === "server" || screen === "lab") return t().page(t()[screen]);
  if (screen === "past") return t().page(t().past(path.at(-1) ?? volume ?? ""));
  if (screen === "deleted") return t().page(t().deletedFiles);
  return t().page(path.at(-1) ?? volume ?? t().volumes);
}
