/** Texts of the lab, which come with the lab alone. */
import type { FigureId } from "../lab/figures";
import { paperName, placeOf, strategyOf, type Kind, type Place, type Strategy, type System } from "../lab/experiment";
import type { Numbers } from "./numbers";

/** Formats that only the lab needs. */
interface Formats {
  /** A time in ms, with three digits. */
  time: (ms: number) => string;
  percent: (part: number) => string;
  date: (ms: number) => string;
}

export function formats(lang: string): Formats {
  const digits = new Intl.NumberFormat(lang, { maximumSignificantDigits: 3, useGrouping: false });
  const date = new Intl.DateTimeFormat(lang, { day: "numeric", month: "long", year: "numeric" });
  return {
    time: (ms) => (ms < 999.5 ? `${digits.format(ms < 1 ? Math.round(ms * 100) / 100 : ms)}\u00a0ms` : `${digits.format(ms / 1000)}\u00a0s`),
    percent: (part) => `${Math.round(part * 100)}\u00a0%`,
    date: (ms) => date.format(ms),
  };
}

const STRATEGY_NAMES: Record<Exclude<Strategy, "whole">, string> = {
  deltic: "Deltic",
  "webr2sync+": "WebR2sync+",
  "webr2sync-siphash": "WebR2sync with SipHash",
  webr2sync: "WebR2sync",
  "webrsync+": "WebRsync+",
  webrsync: "WebRsync",
  rsync: "rsync",
  dsync: "dsync",
};

export const labEnglish = (n: Numbers, f: Formats) => {
  const places: Record<Place, string> = { main: "main thread", turns: "main thread in turns", worker: "worker", native: "command" };
  const kinds: Record<Kind, string> = { append: "Append", insert: "Insert", cut: "Cut", inverse: "Inverse" };
  const strategyName = (strategy: Strategy) => (strategy === "whole" ? "whole file" : STRATEGY_NAMES[strategy]);
  const systemName = (system: System) => {
    const [strategy, place] = [strategyOf(system), placeOf(system)];
    if (strategy === "whole" || system === "deltic@worker") return strategyName(strategy);
    return paperName(system) ?? `${strategyName(strategy)}, ${places[place]}`;
  };
  return {
    ...f,
    bytes: n.bytes,
    places,
    kinds,
    strategyName,
    systemName,
    help: "Edits files, syncs each edit by each system from this browser to this server, and draws the cost, as the WebR2sync paper does. The files are made here and removed again.",
    edit: "Edit",
    fileLength: "Length of the file",
    editLength: "Bytes of the edit",
    repeats: "Repeats",
    repeatsOf: (count: number) => (count === 1 ? "1" : `${count}, the median counts`),
    volume: "Volume",
    systems: "Systems",
    strategy: "Strategy",
    placesHelp: "Main thread: without a pause, as the published programs work. In turns: with a pause each 12 ms.",
    choose: (strategy: string, place: string) => `${strategy}, ${place}`,
    start: "Start",
    stop: "Stop",
    planned: (count: number, bytes: number) => `${count === 1 ? "1 sync" : `${n.count(count)} syncs`}. ${n.bytes(bytes)} of test files go to the server first.`,
    nothingChosen: "Choose at least one edit, length and system.",
    running: (done: number, of: number, system: string, bytes: number) => `${n.count(done)} of ${n.count(of)} · ${system}, ${n.bytes(bytes)}`,
    left: (seconds: number) => `${n.duration(seconds)} left`,
    cleaning: "Removing the test files",
    doneOf: (done: number, of: number) => `${n.count(done)} of ${n.count(of)} syncs are done`,
    versionsHelp: (bytes: number) => `This volume keeps versions, so the removed test files stay as old versions for a time: ${n.bytes(bytes)}.`,
    noVolume: "The lab needs a volume in which this token may read, write and delete.",
    noEngine: "This build has no engine: only whole files can be measured.",
    elsewhere: "Another tab runs the lab.",
    failed: (system: string, why: string) => `${system} failed: ${why}`,
    ended: (why: string) => `The run ended: ${why}`,
    notRemoved: "Some test files could not be removed. The next visit to the lab tries again.",
    notEqual: (count: number) => (count === 1 ? "1 sync made another file than the new version." : `${n.count(count)} syncs made other files than the new version.`),
    csv: "CSV",
    picture: "Picture",
    pictureOf: (title: string) => `Save the picture of ${title}`,
    table: "Table",
    show: "Show",
    cell: (kind: string, edit: number, length: number) => `${kind}, ${n.bytes(edit)}, in a file of ${n.bytes(length)}`,
    // StagMeter
    stagMeter: "StagMeter",
    stagHelp: "A tick each 100 ms. In a box, the page stood still.",
    still: (ms: number) => `${f.time(ms)} still`,
    laneSays: (ms: number, bytes: number) => `${f.time(ms)} · ${n.bytes(bytes)}`,
    laneEnd: (ms: number) => f.time(ms),
    lanesLabel: (lanes: string) => `Stagnation of each system: ${lanes}`,
    // Results
    results: "Results",
    system: "System",
    systemAndEdit: "System and edit",
    place: "Place",
    time: f.time,
    timeColumn: "Time",
    clientColumn: "Engine works",
    stillColumn: "Stood still",
    upColumn: "Sent",
    downColumn: "Received",
    processorColumn: "Processor",
    proofColumn: "Equal",
    yes: "yes",
    no: "no",
    runsOf: (count: number) => (count === 1 ? "1 run" : `median of ${n.count(count)} runs`),
    noResults: "Nothing is measured yet.",
    best: "best",
    // Figures
    figures: "Figures of the paper",
    figuresHelp: "Grey bands are what the paper reports of its machines. Lines have the least and the greatest value.",
    figure: (id: FigureId) => (/^\d/.test(id) ? `Figure ${id}` : ""),
    titles: {
      "2": "Time of a sync by WebRsync, and by rsync",
      "3": "Stages of a sync by rsync, and by WebRsync",
      "4": "Stagnation by WebRsync",
      "5": "Time of a sync by WebRsync-native",
      "6": "Time of a sync by WebRsync-parallel",
      "7": "Stagnation by WebRsync-parallel",
      "8": "Time of a sync by WebRsync+",
      "9": "Stages of a sync by WebRsync+",
      "16": "Time of a sync by each system",
      "17": "Stages of a sync by WebR2sync+",
      "18": "Processor of the client",
      "20": "Bytes of a sync by each system",
      length: "Time of a sync by length of the file",
      still: "Stagnation by length of the file",
      stages: "Stages of a sync by each system",
    } satisfies Record<FigureId, string>,
    says: {
      "2": "The paper: WebRsync takes 16 to 35 times as long as rsync, and a cut is the fastest edit.",
      "3": "The paper: rsync spends some 40 % at the client and 35 % on the network; WebRsync 60 to 92 % at the client, below 5 % on the network.",
      "4": "The paper: the page stands still as long as WebRsync works.",
      "5": "The paper: nearly as fast as rsync.",
      "6": "The paper: hardly faster than WebRsync.",
      "7": "The paper: the page never stands still.",
      "8": "The paper: between WebRsync and WebR2sync+.",
      "9": "The paper: much less time at the client than WebRsync.",
      "16": "The paper: WebR2sync+ is 2 to 3 times as fast as WebR2sync, and 15 to 20 times as fast as WebRsync.",
      "17": "The paper: most of the time at the server.",
      "18": "The paper: WebRsync needs most, rsync half of that, WebR2sync+ least; both WebR2sync below 30 %.",
      "20": "The paper: 1 to 120 kB for files of 1 MB; cuts need least.",
      length: "",
      still: "",
      stages: "",
    } satisfies Record<FigureId, string>,
    bands: {
      "2": "paper: WebRsync, 16–35 × rsync",
      webrsync: "paper: WebRsync, 15–20 × WebR2sync+",
      webr2sync: "paper: WebR2sync, 2–3 × WebR2sync+",
      cpu: "paper: WebR2sync(+), below 30 %",
      "20": "paper: 1–120 kB",
    },
    parts: { client: "client", server: "server's processor", wait: "network and server", network: "network and waiting" },
    notDrawn: "Not drawn",
    needs: (systems: string) => `needs ${systems}`,
    needsLengths: "needs two lengths of files",
    needsCommand: (systems: string) => `needs ${systems}: a page cannot run programs. “tools/web.sh bench lab” measures them.`,
    needsProcessor: "a page cannot see the processor. “tools/web.sh bench lab” measures it.",
    never: [
      ["1, 10–12, 14", "are drawings of the design."],
      ["13, 15", "count the edits in traces and in releases of Linux; no sync is measured."],
      ["19, 21, 22", "load a server with many clients: “deltic-bench serve” (docs/papers.md)."],
    ] as readonly (readonly [string, string])[],
    foot: (machine: string, at: number, runs: number) =>
      `${machine} · ${f.date(at)} · ${runs === 1 ? "1 run" : `medians of ${n.count(runs)} runs`}`,
    processors: (count: number) => (count === 1 ? "1 processor" : `${n.count(count)} processors`),
    byEdit: (measure: string) => `${measure}, by bytes of the edit`,
    kindColumn: "Edit",
    bytesColumn: "Bytes",
    lengthColumn: "File",
  };
};

export type LabWords = ReturnType<typeof labEnglish>;

export const labGerman = (n: Numbers, f: Formats): LabWords => {
  const places: Record<Place, string> = { main: "Hauptthread", turns: "Hauptthread in Häppchen", worker: "Worker", native: "Befehl" };
  const kinds: Record<Kind, string> = { append: "Anhängen", insert: "Einfügen", cut: "Entfernen", inverse: "Invertieren" };
  const strategyName = (strategy: Strategy) => (strategy === "whole" ? "ganze Datei" : STRATEGY_NAMES[strategy].replace("with", "mit"));
  const systemName = (system: System) => {
    const [strategy, place] = [strategyOf(system), placeOf(system)];
    if (strategy === "whole" || system === "deltic@worker") return strategyName(strategy);
    return paperName(system)?.replace("with", "mit") ?? `${strategyName(strategy)}, ${places[place]}`;
  };
  return {
    ...f,
    bytes: n.bytes,
    places,
    kinds,
    strategyName,
    systemName,
    help: "Ändert Dateien, gleicht jede Änderung mit jedem System aus diesem Browser mit diesem Server ab und zeichnet die Kosten, wie der Artikel zu WebR2sync. Die Dateien werden hier gemacht und wieder gelöscht.",
    edit: "Änderung",
    fileLength: "Länge der Datei",
    editLength: "Bytes der Änderung",
    repeats: "Wiederholungen",
    repeatsOf: (count) => (count === 1 ? "1" : `${count}, der Median zählt`),
    volume: "Volume",
    systems: "Systeme",
    strategy: "Strategie",
    placesHelp: "Hauptthread: ohne Pause, wie die veröffentlichten Programme arbeiten. In Häppchen: mit einer Pause alle 12 ms.",
    choose: (strategy, place) => `${strategy}, ${place}`,
    start: "Starten",
    stop: "Anhalten",
    planned: (count, bytes) => `${count === 1 ? "1 Abgleich" : `${n.count(count)} Abgleiche`}. Vorher gehen ${n.bytes(bytes)} an Testdateien zum Server.`,
    nothingChosen: "Wähle mindestens eine Änderung, eine Länge und ein System.",
    running: (done, of, system, bytes) => `${n.count(done)} von ${n.count(of)} · ${system}, ${n.bytes(bytes)}`,
    left: (seconds) => `noch ${n.duration(seconds)}`,
    cleaning: "Löscht die Testdateien",
    doneOf: (done, of) => `${n.count(done)} von ${n.count(of)} Abgleichen sind fertig`,
    versionsHelp: (bytes) => `Dieses Volume behält Versionen: gelöschte Testdateien bleiben eine Zeit lang als alte Versionen, zusammen ${n.bytes(bytes)}.`,
    noVolume: "Das Labor braucht ein Volume, in dem dieser Schlüssel lesen, schreiben und löschen darf.",
    noEngine: "Dieser Build hat keine Engine: nur ganze Dateien lassen sich messen.",
    elsewhere: "Das Labor läuft in einem anderen Tab.",
    failed: (system, why) => `${system} ist gescheitert: ${why}`,
    ended: (why) => `Der Lauf endete: ${why}`,
    notRemoved: "Manche Testdateien ließen sich nicht löschen. Der nächste Besuch im Labor versucht es noch einmal.",
    notEqual: (count) => (count === 1 ? "1 Abgleich ergab eine andere Datei als die neue Version." : `${n.count(count)} Abgleiche ergaben andere Dateien als die neue Version.`),
    csv: "CSV",
    picture: "Bild",
    pictureOf: (title) => `Das Bild von ${title} speichern`,
    table: "Tabelle",
    show: "Zeigen",
    cell: (kind, edit, length) => `${kind}, ${n.bytes(edit)}, in einer Datei von ${n.bytes(length)}`,
    stagMeter: "StagMeter",
    stagHelp: "Ein Strich alle 100 ms. In einem Kasten stand die Seite still.",
    still: (ms) => `stand ${f.time(ms)} still`,
    laneSays: (ms, bytes) => `${f.time(ms)} · ${n.bytes(bytes)}`,
    laneEnd: (ms) => f.time(ms),
    lanesLabel: (lanes) => `Stockung jedes Systems: ${lanes}`,
    results: "Ergebnisse",
    system: "System",
    systemAndEdit: "System und Änderung",
    place: "Ort",
    time: f.time,
    timeColumn: "Zeit",
    clientColumn: "Engine arbeitet",
    stillColumn: "Stand still",
    upColumn: "Gesendet",
    downColumn: "Empfangen",
    processorColumn: "Prozessor",
    proofColumn: "Gleich",
    yes: "ja",
    no: "nein",
    runsOf: (count) => (count === 1 ? "1 Lauf" : `Median von ${n.count(count)} Läufen`),
    noResults: "Noch ist nichts gemessen.",
    best: "am besten",
    figures: "Abbildungen des Artikels",
    figuresHelp: "Graue Bänder sind, was der Artikel von seinen Maschinen berichtet. Linien zeigen auch den kleinsten und den größten Wert.",
    figure: (id) => (/^\d/.test(id) ? `Abbildung ${id}` : ""),
    titles: {
      "2": "Zeit eines Abgleichs mit WebRsync und mit rsync",
      "3": "Abschnitte eines Abgleichs mit rsync und mit WebRsync",
      "4": "Stockung mit WebRsync",
      "5": "Zeit eines Abgleichs mit WebRsync-native",
      "6": "Zeit eines Abgleichs mit WebRsync-parallel",
      "7": "Stockung mit WebRsync-parallel",
      "8": "Zeit eines Abgleichs mit WebRsync+",
      "9": "Abschnitte eines Abgleichs mit WebRsync+",
      "16": "Zeit eines Abgleichs mit jedem System",
      "17": "Abschnitte eines Abgleichs mit WebR2sync+",
      "18": "Prozessor des Clients",
      "20": "Bytes eines Abgleichs mit jedem System",
      length: "Zeit eines Abgleichs nach Länge der Datei",
      still: "Stockung nach Länge der Datei",
      stages: "Abschnitte eines Abgleichs mit jedem System",
    },
    says: {
      "2": "Der Artikel: WebRsync braucht 16- bis 35-mal so lange wie rsync, Entfernen geht am schnellsten.",
      "3": "Der Artikel: rsync verbringt etwa 40 % beim Client und 35 % im Netz; WebRsync 60 bis 92 % beim Client, unter 5 % im Netz.",
      "4": "Der Artikel: Die Seite steht still, solange WebRsync arbeitet.",
      "5": "Der Artikel: fast so schnell wie rsync.",
      "6": "Der Artikel: kaum schneller als WebRsync.",
      "7": "Der Artikel: Die Seite steht nie still.",
      "8": "Der Artikel: zwischen WebRsync und WebR2sync+.",
      "9": "Der Artikel: viel weniger Zeit beim Client als WebRsync.",
      "16": "Der Artikel: WebR2sync+ ist 2- bis 3-mal so schnell wie WebR2sync und 15- bis 20-mal so schnell wie WebRsync.",
      "17": "Der Artikel: die meiste Zeit beim Server.",
      "18": "Der Artikel: WebRsync braucht am meisten, rsync die Hälfte davon, WebR2sync+ am wenigsten; beide WebR2sync unter 30 %.",
      "20": "Der Artikel: 1 bis 120 kB bei Dateien von 1 MB; Entfernen braucht am wenigsten.",
      length: "",
      still: "",
      stages: "",
    },
    bands: {
      "2": "Artikel: WebRsync, 16–35 × rsync",
      webrsync: "Artikel: WebRsync, 15–20 × WebR2sync+",
      webr2sync: "Artikel: WebR2sync, 2–3 × WebR2sync+",
      cpu: "Artikel: WebR2sync(+), unter 30 %",
      "20": "Artikel: 1–120 kB",
    },
    parts: { client: "Client", server: "Prozessor des Servers", wait: "Netz und Server", network: "Netz und Warten" },
    notDrawn: "Nicht gezeichnet",
    needs: (systems) => `braucht ${systems}`,
    needsLengths: "braucht zwei Längen von Dateien",
    needsCommand: (systems) => `braucht ${systems}: Eine Seite kann keine Programme ausführen. „tools/web.sh bench lab“ misst sie.`,
    needsProcessor: "Eine Seite sieht den Prozessor nicht. „tools/web.sh bench lab“ misst ihn.",
    never: [
      ["1, 10–12, 14", "sind Zeichnungen des Entwurfs."],
      ["13, 15", "zählen Änderungen in Aufzeichnungen und in Ausgaben von Linux; kein Abgleich wird gemessen."],
      ["19, 21, 22", "belasten einen Server mit vielen Clients: „deltic-bench serve“ (docs/papers.md)."],
    ],
    foot: (machine, at, runs) => `${machine} · ${f.date(at)} · ${runs === 1 ? "1 Lauf" : `Mediane von ${n.count(runs)} Läufen`}`,
    processors: (count) => (count === 1 ? "1 Prozessor" : `${n.count(count)} Prozessoren`),
    byEdit: (measure) => `${measure}, nach Bytes der Änderung`,
    kindColumn: "Änderung",
    bytesColumn: "Bytes",
    lengthColumn: "Datei",
  };
};
