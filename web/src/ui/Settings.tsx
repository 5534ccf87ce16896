import type { JSX } from "preact";
import { signOut } from "../api/session";
import { rights } from "../files/folder";
import { canSync } from "../live/folders";
import { follow, screenAddress } from "../route";
import { language, speak, t, type Language } from "../text";
import { theme, type Theme } from "../theme";
import { stopAll } from "../transfer/queue";
import { GENTLE, limit, RATES } from "../transfer/rate";
import { stagnation } from "../transfer/stagnation";

export function Settings(): JSX.Element {
  const words = t();
  return (
    <div class="page narrow">
      <div class="head">
        <h1>{words.settings}</h1>
        {canSync() && (
          <a class="btn phone-only" href={screenAddress("synced")} onClick={follow}>
            {words.synced}
          </a>
        )}
        {rights.value?.share && (
          <a class="btn phone-only" href={screenAddress("shared")} onClick={follow}>
            {words.shared}
          </a>
        )}
        {rights.value?.admin && (
          <a class="btn phone-only" href={screenAddress("server")} onClick={follow}>
            {words.server}
          </a>
        )}
      </div>
      <section class="card">
        <div class="setr">
          <b>{words.language}</b>
          <Choice<Language>
            label={words.language}
            now={language.value}
            options={[
              ["en", "English"],
              ["de", "Deutsch"],
            ]}
            choose={speak}
          />
        </div>
        <div class="setr">
          <b>{words.theme}</b>
          <Choice<Theme>
            label={words.theme}
            now={theme.value}
            options={[
              ["system", words.asSystem],
              ["light", words.light],
              ["dark", words.dark],
            ]}
            choose={(next) => (theme.value = next)}
          />
        </div>
      </section>
      <section class="card">
        <div class="setr">
          <div>
            <b>{words.rateLimit}</b>
            <p class="help">{words.rateHelp}</p>
          </div>
          <Choice<`${number}`>
            label={words.rateLimit}
            now={`${limit.value}`}
            options={RATES.map((rate) => [`${rate}`, rate === 0 ? words.noLimit : rate === GENTLE ? words.gentle : words.perSecond(rate)] as const)}
            choose={(next) => (limit.value = Number(next))}
          />
        </div>
      </section>
      <section class="card">
        <div class="setr">
          <div>
            <b>{words.stagnation}</b>
            <p class="help">{words.stagnationHelp}</p>
          </div>
          <span class="num">{words.stagnationOf(stagnation.value)}</span>
        </div>
        <div class="setr">
          <div>
            <b>{words.lab}</b>
            <p class="help">{words.labHelp}</p>
          </div>
          <a class="btn" href={screenAddress("lab")} onClick={follow}>
            {words.openLab}
          </a>
        </div>
      </section>
      <section class="card">
        <div class="setr">
          <div>
            <b>{words.session}</b>
            <p class="help">{words.sessionHelp(location.host)}</p>
          </div>
          <button
            class="btn"
            onClick={() => {
              signOut(stopAll());
            }}
          >
            {words.signOut}
          </button>
        </div>
      </section>
      <p class="help">{words.credits}</p>
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  now: T;
  options: readonly (readonly [T, string])[];
  choose: (next: T) => void;
}

/** A choice among options, as radio buttons of the browser, so that arrow keys work. */
function Choice<T extends string>({ label, now, options, choose }: ChoiceProps<T>): JSX.Element {
  return (
    <fieldset class="seg" aria-label={label}>
      {options.map(([value, text]) => (
        <label class={value === now ? "on" : ""} key={value}>
          <input class="sr" type="radio" name={label} checked={value === now} onChange={() => choose(value)} />
          {text}
        </label>
      ))}
    </fieldset>
  );
}
