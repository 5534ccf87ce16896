import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { Problem, Unreachable } from "../api/http";
import { volumes } from "../api/volumes";
import { leaving } from "../api/session";
import { ended, offered, signIn, tokenIn } from "../session";
import { t } from "../text";
import { Icon, Mark } from "./Icon";

export function SignIn(): JSX.Element {
  // A token from a link is filled in, but not used without a press: any site may have opened the link.
  const text = useSignal(offered ?? "");
  const stay = useSignal(true);
  const wrong = useSignal<string | undefined>(undefined);
  const busy = useSignal(false);
  const words = t();

  async function submit(): Promise<void> {
    const given = tokenIn(text.value.trim());
    if (!given) {
      wrong.value = words.noToken;
      return;
    }
    busy.value = true;
    wrong.value = await tryToken(given, stay.value);
    busy.value = false;
  }

  const why = ended.value;
  return (
    <main class="gate">
      <div class="form">
        <p class="brand0">
          <Mark />
          <b>Deltic</b>
        </p>
        <div class="stack s2">
          <h1 class="t6">{why === "unknown" ? words.signInEnded : why === "left" ? words.signedOut : words.openAddress}</h1>
          <p class="soft">
            {leaving.value
              ? words.signedOutLater
              : why === "unknown"
                ? words.signInEndedHelp
                : why === "left"
                  ? words.signedOutHelp
                  : words.openAddressHelp}
          </p>
        </div>
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void submit();
          }}
        >
          <label class="field">
            <span>{words.paste}</span>
            <input
              class={`in mono ${wrong.value ? "bad" : ""}`}
              value={text}
              onInput={(event) => (text.value = event.currentTarget.value)}
              placeholder="dlt_…"
              autocomplete="off"
              autocapitalize="off"
              spellcheck={false}
              aria-invalid={wrong.value ? true : undefined}
              aria-describedby={wrong.value ? "wrong" : undefined}
            />
            {wrong.value && (
              <span class="err" id="wrong" role="alert">
                <Icon is="warn" />
                <span>{wrong}</span>
              </span>
            )}
          </label>
          <label class="check">
            <input
              class="box"
              type="checkbox"
              checked={stay}
              onChange={(event) => (stay.value = event.currentTarget.checked)}
            />
            <span>{words.stay}</span>
          </label>
          <div class="btns">
            <button class="btn main-b" disabled={busy}>
              {words.signIn}
            </button>
          </div>
        </form>
        <p class="small faint">{where()}</p>
      </div>
      <div class="art">
        <Art />
        <p class="soft">{words.artHelp}</p>
      </div>
    </main>
  );
}

/** Signs in if the server knows the token. Returns an error message; undefined on success. */
async function tryToken(given: string, stay: boolean): Promise<string | undefined> {
  try {
    await volumes(given);
    signIn(given, stay);
    return undefined;
  } catch (error) {
    if (error instanceof Unreachable) return t().noAnswer(1);
    if (error instanceof Problem && error.status === 429) return t().tooManyTries(error.retryAfter ?? 60);
    return t().unknownToken;
  }
}

function where(): string {
  const { host, hostname, protocol } = location;
  if (protocol === "https:") return t().encrypted(host);
  return /^(127\.|localhost$|\[::1\])/.test(hostname) ? t().plainHost(host) : t().openHost(host);
}

/** A picture of a delta transfer: most bytes are kept, a piece is moved, few bytes are new. */
function Art(): JSX.Element {
  const words = t();
  const bar = (y: number) => (
    <>
      <rect class="k" y={y} width="480" height="44" rx="4" />
      <rect class="m" x="300" y={y} width="46" height="44" fill="url(#hatch)" />
      <rect class="n" x="146" y={y} width="7" height="44" />
    </>
  );
  return (
    <svg class="fig hero" viewBox="0 0 480 250" role="img" aria-label={words.artTitle}>
      <defs>
        <pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">
          <rect class="hatch-ground" width="4" height="4" />
          <path class="hatch-line" d="M1 0v4" />
        </pattern>
      </defs>
      <text class="h" x="0" y="14">
        measurements.db
      </text>
      <text x="480" y="14" text-anchor="end">
        214 MB
      </text>
      {bar(28)}
      <path class="tick" d="M149.5 80V170" />
      <circle r="3.5" cx="149.5" cy="108" class="n" />
      <circle r="3.5" cx="149.5" cy="132" class="n" />
      <text class="us-t" x="164" y="126">
        {words.artMoves}
      </text>
      {bar(178)}
      <text x="0" y="244">
        {words.artServer}
      </text>
    </svg>
  );
}
