/** The lab: the experiments of the WebR2sync paper in this browser, against this server. */
import "../style/lab.css";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { t } from "../text";
import { lab } from "./words";
import { Icon } from "../ui/Icon";
import { Choices } from "./Choices";
import { KINDS, OURS } from "./experiment";
import { figures, kindsOf, lanes, runsOf, systemsOf } from "./figures";
import { results, run, show, shown, stopRun, tidy, troubles } from "./lab";
import { machine } from "./machine";
import { FigureCard, Picture } from "./Picture";
import { distinct, resultsOf, spread, toCsv, type Measure, type Result } from "./results";
import { saveFile } from "./save";
import { Select } from "./Select";

export default function Lab(): JSX.Element {
  const words = lab();
  useEffect(() => {
    void tidy();
    return stopRun;
  }, []);
  const all = results.value;
  const wrong = all.filter(({ isEqual }) => !isEqual).length;
  const isRunning = run.value !== undefined;
  return (
    <div class="page lab">
      <div class="head">
        <div class="stack s2 grow">
          <h1>{t().lab}</h1>
          <p class="soft">{words.help}</p>
        </div>
        <button class="btn" disabled={all.length === 0 || isRunning} onClick={() => saveFile(new Blob([toCsv(all)], { type: "text/csv" }), "lab.csv")}>
          <Icon is="down" />
          {words.csv}
        </button>
      </div>
      <Choices />
      {(troubles.value.length > 0 || wrong > 0) && (
        <ul class="card pad troubles" role="status">
          {[...(wrong > 0 ? [words.notEqual(wrong)] : []), ...troubles.value].map((trouble) => (
            <li class="err" key={trouble}>
              <Icon is="warn" />
              <span>{trouble}</span>
            </li>
          ))}
        </ul>
      )}
      {/* Nothing is drawn during a run: drawing would slow the page's own thread, which is measured. */}
      {!isRunning && all.length > 0 && <Shown all={all} />}
    </div>
  );
}

function Shown({ all }: { all: readonly Result[] }): JSX.Element {
  const words = lab();
  const cell = shown.value;
  const at = all[0]!.at;
  const every = figures(all, cell, words);
  const drawn = every.filter((one) => "draw" in one);
  const missing = every.filter((one) => "missing" in one);
  const meter = lanes(systemsOf(all), all, { ...cell, kinds: [cell.kind] }, words);
  return (
    <>
      <Cells all={all} />
      {"draw" in meter && (
        <section class="card" aria-labelledby="stagmeter">
          <header>
            <h2 id="stagmeter">{words.stagMeter}</h2>
            <span class="soft">{words.stagHelp}</span>
          </header>
          <div class="pad">
            <Picture draw={meter.draw} />
          </div>
        </section>
      )}
      <Results all={all} />
      <section class="card" aria-labelledby="figures">
        <header>
          <h2 id="figures">{words.figures}</h2>
          <span class="soft">{words.figuresHelp}</span>
        </header>
        {drawn.map((figure) => (
          <FigureCard figure={figure} at={at} key={figure.id} />
        ))}
        <div class="fig-card">
          <h3>{words.notDrawn}</h3>
          <ul class="help">
            {missing.map(({ id, title, missing }) => (
              <li key={id}>
                {[words.figure(id), title].filter(Boolean).join(", ")}: {missing}
              </li>
            ))}
            {words.never.map(([numbers, why]) => (
              <li key={numbers}>
                {numbers}: {why}
              </li>
            ))}
          </ul>
        </div>
      </section>
    </>
  );
}

/** Chooses the cell that the figures of one cell show. */
function Cells({ all }: { all: readonly Result[] }): JSX.Element {
  const words = lab();
  const { kind, length, bytes } = shown.value;
  return (
    <div class="cells" role="group" aria-label={words.show}>
      <Select label={words.edit} now={kind} options={kindsOf(all).map((one) => [one, words.kinds[one]])} choose={(next) => show({ kind: KINDS.find((one) => one === next)! })} />
      <Select label={words.editLength} now={`${bytes}`} options={distinct(all, "bytes").map((one) => [`${one}`, words.bytes(one)])} choose={(next) => show({ bytes: Number(next) })} />
      <Select label={words.fileLength} now={`${length}`} options={distinct(all, "length").map((one) => [`${one}`, words.bytes(one)])} choose={(next) => show({ length: Number(next) })} />
    </div>
  );
}

/** The medians of a cell. The best of each column is marked, whoever it is. */
function Results({ all }: { all: readonly Result[] }): JSX.Element {
  const words = lab();
  const cell = shown.value;
  const rows = systemsOf(all).flatMap((system) => {
    const some = resultsOf(all, system, cell);
    return some.length ? [{ system, some }] : [];
  });
  const columns: readonly (readonly [Measure | "up" | "down", string, (value: number) => string])[] = [
    ["ms", words.timeColumn, words.time],
    ["clientMs", words.clientColumn, words.time],
    ["stagnation", words.stillColumn, words.time],
    ["up", words.upColumn, words.bytes],
    // The bytes of answers to plain HTTP are not measured.
    ["down", words.downColumn, (value) => (value === 0 ? "–" : words.bytes(value))],
  ];
  const best = new Map(columns.map(([measure]) => [measure, Math.min(...rows.map(({ some }) => (measure === "down" && some[0]!.down === 0 ? Infinity : (spread(some, measure)?.mid ?? Infinity))))]));
  const title = words.cell(words.kinds[cell.kind], cell.bytes, cell.length);
  return (
    <section class="card" aria-labelledby="results">
      <header>
        <h2 id="results">{words.results}</h2>
        <span class="soft">
          {title} · {words.runsOf(runsOf(all))}
        </span>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label={title}>
        <table class="tbl" data-table="results">
          <thead>
            <tr>
              <th scope="col">{words.system}</th>
              {columns.map(([measure, name]) => (
                <th scope="col" class="num" key={measure}>
                  {name}
                </th>
              ))}
              <th scope="col">{words.proofColumn}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ system, some }) => (
              <tr key={system}>
                <th scope="row" class={system === OURS ? "us-name" : ""}>
                  {words.systemName(system)}
                </th>
                {columns.map(([measure, , unit]) => {
                  const value = spread(some, measure);
                  const isBest = value !== undefined && value.mid === best.get(measure);
                  return (
                    <td class={`num ${isBest ? "best" : ""}`} key={measure}>
                      {value ? unit(value.mid) : "–"}
                      {isBest && <span class="sr"> ({words.best})</span>}
                    </td>
                  );
                })}
                <td class={some.every(({ isEqual }) => isEqual) ? "" : "bad-name"}>{some.every(({ isEqual }) => isEqual) ? words.yes : words.no}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="help pad">{words.foot(machine(words.processors), all[0]!.at, runsOf(all))}</p>
    </section>
  );
}
