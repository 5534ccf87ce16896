import { useSignalEffect } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Files } from "../files/Files";
import { FileDialogs } from "../files/Dialogs";
import { DropZone } from "../files/Drop";
import { Volumes } from "../files/Volumes";
import { route } from "../route";
import { token } from "../session";
import { t } from "../text";
import { questions } from "../transfer/conflicts";
import { asksBeforeClosing } from "../transfer/queue";
import { ConflictDialog } from "./Conflict";
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
    // What the journal has goes on at the next visit. Without a handle, the user would have to choose the file again.
    const guard = (event: BeforeUnloadEvent) => {
      if (asksBeforeClosing()) event.preventDefault();
    };
    addEventListener("beforeunload", guard);
    return () => removeEventListener("beforeunload", guard);
  }, []);

  if (!token.value) return <SignIn />;
  const { screen, volume } = route.value;
  return (
    <div class="shell">
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
        {screen === "transfers" ? <Transfers /> : screen === "settings" ? <Settings /> : volume ? <Files /> : <Volumes />}
      </main>
      <Line />
      <DropZone />
      <FileDialogs />
      {questions.value[0] && <ConflictDialog key={questions.value[0].item.to.path.join("/")} />}
    </div>
  );
}

function title(): string {
  const { screen, volume, path } = route.value;
  if (screen === "transfers") return t().page(t().transfers);
  if (screen === "settings") return t().page(t().settings);
  return t().page(path.at(-1) ?? volume ?? t().volumes);
}
