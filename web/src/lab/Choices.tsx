/** Form of the lab: edits, lengths, systems and repeats of a run, and the buttons that start and stop the run. */
import type { JSX } from "preact";
import { lab } from "./words";
import { Icon } from "../ui/Icon";
import { EDITS, KINDS, lengthsHere, PAGE_PLACES, paperName, placesOf, STRATEGIES, type Choice, type System } from "./experiment";
import { choice, chosenVolume, planned, plannedBytes, run, start, stopRun, usable, volume } from "./lab";
import { Select } from "./Select";
import { hasEngine } from "./trial";

const REPEATS = [1, 3, 5, 9] as const;

export function Choices(): JSX.Element {
  const words = lab();
  const now = choice.value;
  const isRunning = run.value !== undefined;
  const at = volume.value;
  const canStart = planned.value.length > 0 && at !== undefined;
  return (
    <section class="card">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        <div class="pad runs">
          <Checks legend={words.edit} of="kinds" options={KINDS.map((kind) => [kind, words.kinds[kind]])} disabled={isRunning} />
          <Checks legend={words.editLength} of="edits" options={EDITS.map((bytes) => [bytes, words.bytes(bytes)])} disabled={isRunning} />
          <Checks legend={words.fileLength} of="lengths" options={lengthsHere().map((bytes) => [bytes, words.bytes(bytes)])} disabled={isRunning} />
          <div class="stack s2">
            <Select
              label={words.repeats}
              now={`${now.repeats}`}
              options={REPEATS.map((count) => [`${count}`, words.repeatsOf(count)])}
              choose={(next) => choose({ repeats: Number(next) })}
              disabled={isRunning}
            />
            {usable.value.length > 1 && (
              <Select label={words.volume} now={at?.name ?? ""} options={usable.value.map(({ name }) => [name, name])} choose={(next) => (chosenVolume.value = next)} disabled={isRunning} />
            )}
          </div>
        </div>
        <Systems disabled={isRunning} />
        <div class="pad btns go">
          {isRunning ? (
            <button class="btn" type="button" onClick={stopRun} disabled={run.value?.now === undefined}>
              <Icon is="x" />
              {words.stop}
            </button>
          ) : (
            <button class="btn main-b" disabled={!canStart}>
              <Icon is="go" />
              {words.start}
            </button>
          )}
          {isRunning ? <Running /> : <p class="help">{plan()}</p>}
        </div>
      </form>
    </section>
  );
}

function plan(): string {
  const words = lab();
  if (usable.value.length === 0) return words.noVolume;
  if (planned.value.length === 0) return words.nothingChosen;
  const says = [words.planned(planned.value.length, plannedBytes.value)];
  // Old and new versions stay.
  if (volume.value?.versions) says.push(words.versionsHelp(2 * plannedBytes.value));
  if (!hasEngine) says.push(words.noEngine);
  return says.join(" ");
}

function Running(): JSX.Element {
  const words = lab();
  const { done, of, now, secondsLeft } = run.value!;
  const says = now ? words.running(done, of, words.systemName(now.system), now.length) : words.cleaning;
  return (
    <div class="running">
      <svg class="strip thick" role="img" aria-label={words.doneOf(done, of)}>
        <rect class="k" width={`${(done / of) * 100}%`} height="100%" />
      </svg>
      <span class="small soft">{[says, secondsLeft === undefined ? "" : words.left(secondsLeft)].filter(Boolean).join(" · ")}</span>
    </div>
  );
}

function choose(some: Partial<Choice>): void {
  choice.value = { ...choice.value, ...some };
}

/** Adds or removes a value, in the order of `order`. */
function toggled<T>(values: readonly T[], value: T, order: readonly T[]): readonly T[] {
  return order.filter((one) => (one === value ? !values.includes(one) : values.includes(one)));
}

interface ChecksProps<K extends "kinds" | "edits" | "lengths"> {
  legend: string;
  of: K;
  options: readonly (readonly [Choice[K][number], string])[];
  disabled: boolean;
}

function Checks<K extends "kinds" | "edits" | "lengths">({ legend, of, options, disabled }: ChecksProps<K>): JSX.Element {
  const values = choice.value[of] as readonly Choice[K][number][];
  const order = options.map(([value]) => value);
  return (
    <fieldset class="checks" disabled={disabled}>
      <legend>{legend}</legend>
      {options.map(([value, text]) => (
        <label class="check" key={value}>
          <input class="box" type="checkbox" name={of} value={value} checked={values.includes(value)} onChange={() => choose({ [of]: toggled(choice.peek()[of] as readonly Choice[K][number][], value, order) })} />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  );
}

const ALL: readonly System[] = STRATEGIES.flatMap((strategy) => placesOf(strategy).map((place): System => `${strategy}@${place}`));

/** A table of strategies and places. A system of the paper has its name in its cell. */
function Systems({ disabled }: { disabled: boolean }): JSX.Element {
  const words = lab();
  const { systems } = choice.value;
  return (
    <fieldset class="systems" disabled={disabled}>
      <legend class="sr">{words.systems}</legend>
      <div class="scroll" tabIndex={0} role="region" aria-label={words.systems}>
        <table class="tbl">
          <thead>
            <tr>
              <th scope="col">{words.strategy}</th>
              {PAGE_PLACES.map((place) => (
                <th scope="col" key={place}>
                  {words.places[place]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {STRATEGIES.map((strategy) => (
              <tr key={strategy}>
                <th scope="row">{words.strategyName(strategy)}</th>
                {PAGE_PLACES.map((place) => {
                  const system: System = `${strategy}@${place}`;
                  const isThere = placesOf(strategy).includes(place) && (hasEngine || strategy === "whole");
                  return (
                    <td key={place}>
                      {isThere && (
                        <label class="check">
                          <input
                            class="box"
                            type="checkbox"
                            name="systems"
                            value={system}
                            aria-label={words.choose(words.strategyName(strategy), words.places[place])}
                            checked={systems.includes(system)}
                            onChange={() => choose({ systems: toggled(choice.peek().systems, system, ALL) })}
                          />
                          <span class="soft wide-name">{paperName(system) ?? ""}</span>
                        </label>
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="help pad">{words.placesHelp}</p>
    </fieldset>
  );
}
