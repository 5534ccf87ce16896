import type { Words } from "./en";
import { name, type Numbers } from "./numbers";

export const german = (n: Numbers): Words => ({
  lang: "de",
  nav: "Hauptmenü",
  skip: "Zum Inhalt",
  files: "Dateien",
  transfers: "Übertragungen",
  settings: "Einstellungen",
  search: "Suchen",
  searchIn: (folder) => `In ${name(folder)} suchen`,
  close: "Schließen",
  cancel: "Abbrechen",
  tryAgain: "Noch einmal",
  page: (what) => `${what} · Deltic`,

  signIn: "Anmelden",
  openAddress: "Öffne die Adresse, die der Server anzeigt",
  openAddressHelp: "Sie enthält den Schlüssel, und du bist ohne Tippen drin.",
  paste: "Oder füge die Adresse oder den Schlüssel ein",
  stay: "Auf diesem Gerät angemeldet bleiben",
  signInEnded: "Deine Anmeldung endete",
  signInEndedHelp: "Der Schlüssel wurde widerrufen oder ist abgelaufen. Öffne die Adresse, die der Server beim letzten Start angezeigt hat.",
  signedOut: "Du bist abgemeldet",
  signedOutHelp: "Dieses Gerät hat den Schlüssel vergessen.",
  signedOutLater: "Der Server kann deine Anmeldung noch nicht beenden. Lass diese Seite offen: Der Server beendet deine Anmeldung, sobald er antwortet.",
  noToken: "Darin ist kein Schlüssel. Er beginnt mit „dlt_“.",
  unknownToken: "Der Server kennt diesen Schlüssel nicht. Er ist widerrufen, oder ein Zeichen fehlt.",
  tooManyTries: (seconds) => `Von hier kamen zu viele falsche Schlüssel. Versuch es in ${n.count(seconds)} s noch einmal.`,
  encrypted: (host) => `${host} · verschlüsselt`,
  plainHost: (host) => `${host} · nur dieser Rechner`,
  openHost: (host) => `${host} · unverschlüsselt`,
  artTitle: "Eine Datei von 214 MB, davon sind 1,9 kB neu",
  artMoves: "1,9 kB sind unterwegs",
  artServer: "auf dem Server",
  artHelp: "Deltic schaut, was die andere Seite hat, und sendet, was neu ist.",
  kept: "geblieben",
  moved: "verschoben",
  fresh: "neu",

  volumes: "Volumes",
  noVolumes: "Dieser Schlüssel öffnet kein Volume.",
  readOnly: "nur lesen",
  writeOnly: "nur schreiben",
  used: (bytes, quota) => (quota === null ? `${n.bytes(bytes)} belegt` : `${n.bytes(bytes)} von ${n.bytes(quota)} belegt`),
  folder: "Ordner",
  newFolder: "Neuer Ordner",
  addFiles: "Dateien hinzufügen",
  addFolder: "Ordner hinzufügen",
  nameColumn: "Name",
  size: "Größe",
  changed: "Geändert",
  selectAll: "Alle auswählen",
  select: (file) => `${name(file)} auswählen`,
  moreFor: (file) => `Mehr zu ${name(file)}`,
  more: "Mehr",
  clearSelection: "Auswahl aufheben",
  selected: (count) => `${n.count(count)} ausgewählt`,
  download: "Herunterladen",
  downloadZip: "Als ZIP herunterladen",
  updateMine: "Meine ältere Kopie erneuern",
  updated: (file, came, bytes) => `${name(file)} ist aktuell: ${n.bytes(came)} kamen statt ${n.bytes(bytes)}`,
  rename: "Umbenennen",
  moveTo: "Verschieben",
  remove: "Löschen",
  deleteKey: "Entf",
  sortBy: (column) => `Nach ${column} sortieren`,
  listing: "Die Liste wächst noch",
  foot: (files, folders, bytes) =>
    `${[files === 1 ? "1 Datei" : `${n.count(files)} Dateien`, folders === 0 ? "" : `${n.count(folders)} Ordner`]
      .filter(Boolean)
      .join(" und ")}, ${n.bytes(bytes)}.`,
  footKeys: "Pfeiltasten bewegen, Leertaste wählt aus, Enter öffnet.",
  nothingHere: "Noch nichts da",
  nothingHereHelp: "Zieh Dateien oder einen Ordner irgendwo auf dieses Fenster.",
  nothingHereRead: "Was andere hinzufügen, erscheint hier.",
  firstTime: "beim ersten Mal",
  fromThenOn: "danach",
  terminal: "Im Terminal:",
  noFolder: "Diesen Ordner gibt es nicht",
  noFolderHelp: (path) => `Bei ${name(path)} ist nichts, oder dieser Schlüssel öffnet es nicht.`,
  noSuchName: (query) => `Kein Name enthält ${name(query)}.`,
  found: (count, query) => (count === 1 ? `1 Name enthält ${name(query)}` : `${n.count(count)} Namen enthalten ${name(query)}`),
  inSubfolders: "In Unterordnern",
  searching: "Die Unterordner werden durchsucht",
  searchMore: "Weitersuchen",
  foundBelow: (count) => (count === 1 ? "1 Name in Unterordnern." : `${n.count(count)} Namen in Unterordnern.`),
  clear: "Leeren",
  details: "Einzelheiten",
  kind: "Art",
  kindFolder: "Ordner",
  kindFile: "Datei",
  kindLink: "Verweis auf dem Datenträger des Servers",
  kindSpecial: "Gerät oder Pipe",
  path: "Pfad",
  cannotRead: "Der Ordner lässt sich nicht auflisten",
  dropInto: (folder) => `In ${name(folder)} ablegen`,
  dropHelp: (count) => (count > 1 ? `${n.count(count)} Einträge. Nichts wird ohne Frage ersetzt.` : "Nichts wird ohne Frage ersetzt."),
  dropNowhere: "Hier lässt sich nichts ablegen",
  dropNowhereHelp: "Dieser Schlüssel darf hier nicht schreiben.",

  folderName: "Name des Ordners",
  fileName: "Name der Datei",
  create: "Ordner anlegen",
  nameEmpty: "Ein Name hat mindestens ein Zeichen.",
  nameSlash: "Ein Name hat keinen Schrägstrich.",
  nameTaken: (file) => `${name(file)} ist schon da.`,
  nameRefused: (detail) => `Der Server lehnt diesen Namen ab: ${detail}`,
  renameTitle: (file) => `${name(file)} umbenennen`,
  moveTitle: (count, first) => (count === 1 ? `${name(first)} verschieben` : `${n.count(count)} Dateien verschieben`),
  moveHere: (folder) => `Nach ${name(folder)} verschieben`,
  noFolders: "Hier sind keine Ordner",
  deleteTitle: (count, first) => (count === 1 ? `${name(first)} löschen?` : `${n.count(count)} Einträge löschen?`),
  deleteFor: "Das Volume behält keine Versionen; das lässt sich nicht zurücknehmen.",
  deleteFolders: "Ordner werden mit allem gelöscht, was darin ist.",
  deleteVersions: "Dateien bleiben als Versionen und lassen sich zurückholen.",
  deleted: (count) => (count === 1 ? "1 Datei gelöscht" : `${n.count(count)} Dateien gelöscht`),
  deletedOne: (file) => `${name(file)} gelöscht`,
  undo: "Rückgängig",
  movedBack: (count) => (count === 1 ? "Zurückgelegt" : `${n.count(count)} zurückgelegt`),
  restored: (count) => (count === 1 ? "1 Datei ist wieder da" : `${n.count(count)} Dateien sind wieder da`),
  changedSince: (file) => `${name(file)} hat sich geändert, seit du es gesehen hast, und wurde nicht gelöscht. Sieh noch einmal hin.`,
  movedFiles: (count, folder) =>
    count === 1 ? `1 Datei nach ${name(folder)} verschoben` : `${n.count(count)} Dateien nach ${name(folder)} verschoben`,
  renamed: (file) => `Umbenannt in ${name(file)}`,
  made: (folder) => `Ordner ${name(folder)} angelegt`,
  failedFor: (file, why) => `${name(file)}: ${why}`,
  notNow: (detail) => `Der Server hat abgelehnt: ${detail}`,

  lineLabel: "Was unterwegs ist",
  nothingMoves: "Nichts ist unterwegs",
  moves: (t) => `${n.count(t.moving + t.waiting)} unterwegs`,
  left: (bytes) => `noch ${n.bytes(bytes)}`,
  leftOf: (t) => `von ${n.bytes(t.bytes)}`,
  needYou: (count) => (count === 1 ? "1 braucht dich" : `${n.count(count)} brauchen dich`),
  lastTime: (at, files, { bytes, kept, sent }) =>
    `Zuletzt: ${n.time(at)}, ${files === 1 ? "1 Datei" : `${n.count(files)} Dateien`}, ${n.bytes(sent)}${kept > 0 ? ` statt ${n.bytes(bytes)}` : ""}`,
  noAnswer: (seconds) => `Der Server antwortet nicht. Nächster Versuch in ${n.count(seconds)} s.`,
  waitAndLose: (count) =>
    count === 0 ? "" : count === 1 ? "1 Übertragung wartet, nichts geht verloren." : `${n.count(count)} Übertragungen warten, nichts geht verloren.`,
  tryNow: "Jetzt versuchen",
  on: "Der Server antwortet",

  leftToSend: (t) => `von ${n.bytes(t.bytes)} sind noch zu senden`,
  secondsLeft: (seconds) => `noch ${n.duration(seconds)}`,
  perSecond: (bytes) => `${n.bytes(bytes)}/s`,
  sent: "gesendet",
  toSend: "zu senden",
  needYouTitle: "Braucht dich",
  movingTitle: "Unterwegs",
  doneTitle: "Fertig",
  retryAll: (count) => (count === 1 ? "Noch einmal" : `Alle ${n.count(count)} noch einmal`),
  retryFailed: "Alle gescheiterten noch einmal",
  copyNames: "Namen kopieren",
  copied: "Die Namen sind kopiert.",
  pause: (what) => `${name(what)} anhalten`,
  resume: (what) => `${name(what)} fortsetzen`,
  cancelOne: (what) => `${name(what)} abbrechen`,
  forget: (what) => `${name(what)} von der Liste nehmen`,
  showFolder: (what) => `Ordner von ${name(what)} zeigen`,
  showFiles: (what) => `Dateien von ${name(what)} zeigen`,
  filesCount: (count) => (count === 1 ? "1 Datei" : `${n.count(count)} Dateien`),
  stage: { reading: "Liest", matching: "Vergleicht", sending: "Sendet", writing: "Schreibt" },
  waiting: "Wartet",
  paused: "Von dir angehalten",
  doneAt: (at) => `Fertig um ${n.time(at)}`,
  doneOf: (done) => `${n.count(done)} fertig`,
  failedOf: (failed) => `${n.count(failed)} gescheitert`,
  equal: "Auf beiden Seiten gleich, nichts übertragen",
  equalOf: (count) => `${n.count(count)} auf beiden Seiten gleich`,
  leftAlone: "Die Version des Servers blieb",
  cancelled: "Abgebrochen",
  asks: "Wartet auf deine Wahl",
  choose: "Wählen",
  allNew: (bytes) => `${n.bytes(bytes)}, alles neu`,
  partNew: (fresh, bytes) => `${n.bytes(fresh)} von ${n.bytes(bytes)} neu`,
  saved: (bytes, of) => `${n.bytes(bytes)} gespart, ${Math.floor((bytes / of) * 100)} %`,
  sentOf: (sent, bytes) => `${n.bytes(sent)} von ${n.bytes(bytes)} gesendet`,
  stopped: "Angehalten",
  stayOpen: "Eine geschlossene Seite sendet nichts. Was nicht fertig ist, geht beim nächsten Besuch weiter.",
  earlierTitle: (count) => (count === 1 ? "1 Übertragung einer früheren Anmeldung" : `${n.count(count)} Übertragungen einer früheren Anmeldung`),
  earlierHelp: "Vielleicht hat jemand anders sie begonnen. Nichts davon wird gesendet, wenn du hier nicht damit fortfährst.",
  earlierGoOn: "Mit dieser Anmeldung fortfahren",
  discard: "Verwerfen",
  chooseAgain: "Datei noch einmal wählen",
  allowAgain: "Weiter",
  notThose: (count) =>
    count === 1 ? "1 Datei hat einen anderen Namen, eine andere Länge oder Zeit als die fehlende." : `${n.count(count)} Dateien haben andere Namen, Längen oder Zeiten als die fehlenden.`,
  clearList: "Leeren",
  others: (count) => `und ${n.count(count)} weitere`,
  failure: (why) => {
    switch (why.kind) {
      case "full":
        return "Das Volume ist voll. Schaff Platz und versuch es noch einmal.";
      case "unreadable":
        return "Die Datei lässt sich nicht lesen, oder ein anderes Programm hat hineingeschrieben. Versuch es danach noch einmal.";
      case "choose":
        return "Die Seite war inzwischen zu. Wähle die Datei noch einmal, dann geht der Rest weg.";
      case "permission":
        return "Der Browser fragt erneut, bevor diese Seite die Datei lesen darf.";
      case "forbidden":
        return "Dieser Schlüssel darf hier nicht schreiben.";
      case "folder":
        return "Auf dem Server hat etwas anderes diesen Namen, oder es wird gerade geschrieben.";
      case "too-large":
        return "Die Datei ist größer, als der Server annimmt.";
      case "ended":
        return "Deine Anmeldung endete, bevor das gesendet war.";
      case "later":
        return "Du entscheidest später. Nichts wurde ersetzt.";
      case "name":
        return `Der Server lehnt diesen Namen ab: ${why.detail}`;
      case "other":
        return `Der Server hat abgelehnt: ${why.detail}`;
    }
  },

  conflictTitle: (file) => `${name(file)} ist schon auf dem Server, mit anderem Inhalt`,
  conflictHelp: "Nichts wird ersetzt, bevor du wählst.",
  which: "Welche Version",
  mine: "Meine",
  theirs: "Die andere",
  both: "Beide behalten",
  thisDevice: "dieses Gerät",
  onServer: "auf dem Server",
  length: "Länge",
  toSendFact: "Zu senden",
  bothHelp: (there, mine) => `Die andere bleibt ${name(there)}. Meine wird ${name(mine)}.`,
  sameForAll: (count) => (count === 1 ? "Ebenso beim anderen Konflikt" : `Ebenso bei den anderen ${n.count(count)} Konflikten`),
  sameForLater: "Ebenso bei allen weiteren Konflikten dieser Übertragung",
  later: "Später entscheiden",
  keepMine: "Meine behalten",
  keepTheirs: "Die andere behalten",
  keepBoth: "Beide behalten",
  chooseFirst: "Wähle eine Version",

  // Shared links and the server
  shared: "Geteilt",
  share: "Teilen",
  sharedHelp: "Links, die du hier gemacht hast. Ein widerrufener Link endet binnen einer Sekunde. Alle enden, wenn du dich auf diesem Gerät abmeldest.",
  nothingShared: "Nichts ist geteilt.",
  shareTitle: (folder) => `${name(folder)} teilen`,
  shareHelp: "Der Link öffnet diesen Ordner und sonst nichts. Er endet spätestens mit deiner Anmeldung.",
  shareName: "Für wen ist der Link?",
  shareRights: "Darf",
  mayRead: "lesen",
  mayAdd: "Dateien ablegen und ersetzen, aber keine sehen",
  mayBoth: "lesen, ablegen und ersetzen",
  mayDelete: "löschen",
  shareEnds: "Endet nach",
  days: (count) => (count === 1 ? "1 Tag" : `${n.count(count)} Tagen`),
  neverEnds: "endet nie",
  endsAt: (at) => `endet ${n.when(at)}`,
  makeLink: "Link machen",
  linkTitle: (folder) => `Der Link zu ${name(folder)}`,
  linkOnce: "Der Link wird nur dieses eine Mal gezeigt.",
  link: "Link",
  copyLink: "Link kopieren",
  linkCopied: "Der Link ist kopiert.",
  revoke: "Widerrufen",
  revoked: (what) => `${name(what)} ist widerrufen`,
  allVolumes: "alle Volumes",
  server: "Server",
  tokens: "Schlüssel",
  noQuota: "keine Grenze",
  keepsVersions: "behält Versionen",
  keepsNone: "Dieses Volume behält keine Versionen.",
  lookAgain: "Noch einmal nachsehen",
  connected: (count) => (count === 1 ? "verbunden" : `${n.count(count)}-mal verbunden`),
  lastUsed: (at, visits) => `zuletzt benutzt ${n.when(at)}, ${visits === 1 ? "1 Besuch" : `${n.count(visits)} Besuche`}`,
  neverUsed: "nie benutzt",
  unfinished: "Unfertige Uploads",
  unfinishedHelp: (arrived, bytes, ends) => `${n.bytes(arrived)} von ${n.bytes(bytes)} angekommen, aufgehoben bis ${n.when(ends)}`,
  cancelUpload: (file) => `Upload von ${name(file)} abbrechen`,
  uploadCancelled: (file) => `Der Upload von ${name(file)} wurde abgebrochen`,
  notConnected: "nicht verbunden",
  thisPage: "diese Seite",
  madeBy: (maker) => `gemacht von ${name(maker)}`,
  serverHelp: "Volumes und Grenzen stehen in den Einstellungen des Servers, der danach neu startet.",

  // Synced folders
  synced: "Abgleich",
  syncedHelp: "Ordner dieses Geräts, die Änderungen in beide Richtungen folgen, solange diese Seite offen ist.",
  syncedFoot: "Wird diese Seite geschlossen, geht nichts verloren: Der nächste Besuch gleicht beide Seiten ab. Wer immer abgleichen will, startet „deltic watch“.",
  syncFolder: (folder) => `${name(folder)} mit einem Ordner abgleichen`,
  syncChoose: "Öffne zuerst einen Ordner eines Volumes. Dieser Bildschirm gleicht ihn dann mit einem Ordner dieses Geräts ab.",
  syncedTwice: "Dieser Ordner, oder ein Ordner darin oder darüber, wird schon abgeglichen.",
  earlierSynced: (count) => (count === 1 ? "1 Ordner einer früheren Anmeldung" : `${n.count(count)} Ordner einer früheren Anmeldung`),
  earlierSyncedHelp: "Vielleicht hat jemand anderes den Abgleich begonnen. Nichts bewegt sich, bevor du hier fortfährst.",
  pauseSync: "Anhalten",
  resumeSync: "Fortsetzen",
  stopSync: "Abgleich beenden",
  allowFolder: "Wieder erlauben",
  bringBack: "Zurückholen",
  deleteToo: (files) => (files === 1 ? "1 Datei löschen" : `${n.count(files)} Dateien löschen`),
  lastEdits: "Letzte Änderungen",
  syncStatus: (status) => {
    switch (status.is) {
      case "starting":
        return "Sieht beide Seiten an";
      case "synced":
        return "Abgeglichen";
      case "working":
        return status.left === 1 ? "Noch 1 Datei" : `Noch ${n.count(status.left)} Dateien`;
      case "offline":
        return "Offline";
      case "paused":
        return "Von dir angehalten";
      case "elsewhere":
        return "Läuft in einem anderen Tab";
      case "permission":
        return "Angehalten: Erlaubnis";
      case "missing":
        return "Angehalten: Der Ordner fehlt";
      case "refused":
        return "Angehalten: abgelehnt";
      case "asking":
        return "Angehalten: viele Löschungen";
    }
  },
  syncToDo: (status) => {
    switch (status.is) {
      case "permission":
        return "Der Browser fragt neu, bevor diese Seite den Ordner lesen und schreiben darf. Änderungen von inzwischen folgen danach.";
      case "missing":
        return "Der Ordner wurde verschoben oder gelöscht. Auf dem Server wird nichts gelöscht. Stelle den Ordner zurück, oder beende den Abgleich und wähle ihn neu.";
      case "asking":
        return `${n.count(status.guard.files)} von ${n.count(status.guard.of)} Dateien fehlen ${status.guard.end === "here" ? "auf dem Server" : "auf diesem Gerät"}. ${status.guard.end === "here" ? "Auf diesem Gerät" : "Auf dem Server"} auch löschen?`;
      case "offline":
        return "Änderungen warten hier und folgen, sobald der Server antwortet.";
      default:
        return "";
    }
  },
  syncTrouble: (why) => {
    switch (why.is) {
      case "folds":
        return `ist auf manchen Systemen derselbe Name wie ${name(why.with)}. Benenne eine der beiden um.`;
      case "other":
        return why.end === "here" ? "ist auf diesem Gerät nicht lesbar und bleibt, wie es ist." : "ist auf dem Server ein Link oder ein besonderer Eintrag und bleibt, wie es ist.";
      case "name":
        return "hat einen Namen, den keine Datei haben kann, und bleibt auf dem Server.";
      case "failed":
        return `wurde nicht bewegt: ${why.detail}`;
    }
  },
  syncEdit: (step, bytes, ms) => {
    if (step.is === "delete") return step.end === "here" ? "hier gelöscht" : "auf dem Server gelöscht";
    if (step.is === "aside") return "unter anderem Namen behalten: beide Seiten hatten sich geändert";
    if (step.is === "move") return "umbenannt";
    return `${n.bytes(bytes)} in ${(ms / 1000).toFixed(2).replace(".", ",")} s`;
  },

  // Versions and previews
  versions: "Versionen",
  present: "Jetzt",
  restore: "Zurückholen",
  lastChange: "Letzte Änderung",
  lastChangeMoved: "Was die letzte Änderung bewegt hat",
  byWhom: (token) => `von ${name(token)}`,
  changeShort: ({ kept, moved, new: fresh }) =>
    kept + moved === 0 && fresh > 0 ? "alles neu" : fresh > 0 ? `${n.bytes(fresh)} neu` : moved > 0 ? `${n.bytes(moved)} verschoben` : "nichts neu",
  changeInWords: ({ kept, moved, new: fresh }) => `geblieben ${n.bytes(kept)}, verschoben ${n.bytes(moved)}, neu ${n.bytes(fresh)}`,
  comparing: "Vergleicht mit der Version davor",
  changeUnknown: "Was sich geändert hat, ist nicht bekannt.",
  whatChanged: "Was hat sich geändert?",
  deletedFiles: "Gelöschte Dateien",
  moreDeleted: (count) => `${n.count(count)} weitere fehlen hier. In einem Ordner weiter unten stehen seine Dateien.`,
  deletedAt: (at) => `gelöscht ${n.when(at)}`,
  noDeleted: "Hier ist keine gelöschte Datei aufgehoben.",
  deletedHelp: "Eine zurückgeholte Datei steht wieder an ihrem alten Platz.",
  asOf: "Stand von …",
  past: (folder: string) => `${folder}, wie es war`,
  pastMoment: "Zeitpunkt",
  pastHelp: "Wiederherstellen legt neue Versionen an: Nichts wird gelöscht, und später entstandene Dateien bleiben.",
  pastAgo: (what: "hour" | "day" | "week" | "month") => ({ hour: "Vor einer Stunde", day: "Vor einem Tag", week: "Vor einer Woche", month: "Vor 30 Tagen" })[what],
  pastIs: (now: "same" | "other" | "gone") => ({ same: "wie jetzt", other: "jetzt eine andere Version", gone: "jetzt weg" })[now],
  pastNone: "Der Ordner hatte damals keine Einträge, oder sie sind nicht aufbewahrt.",
  pastYounger: (count: number) => (count === 1 ? "1 Eintrag kam später, oder seine Version ist nicht mehr da." : `${n.count(count)} Einträge kamen später, oder ihre Versionen sind nicht mehr da.`),
  pastRestoreAll: "Alles wiederherstellen",
  pastRestoreAsk: (folder: string, at: number) => `${name(folder)} auf den Stand von ${n.when(at)} bringen?`,
  pastRestoring: (count: number) => `Bisher ${n.count(count)} wiederhergestellt …`,
  pastRestored: (count: number) =>
    count === 0 ? "Alle Dateien sind, wie sie waren" : count === 1 ? "1 Datei wiederhergestellt" : `${n.count(count)} Dateien wiederhergestellt`,
  pastSaveAll: "Alles herunterladen",
  pastSaved: (count: number) => (count === 1 ? "1 Datei heruntergeladen" : `${n.count(count)} Dateien heruntergeladen`),
  fileBack: (file) => `${name(file)} ist wieder da`,
  replacedAt: (at) => `ersetzt ${n.when(at)}`,
  noVersions: "Die Datei wurde nie ersetzt.",
  versionsHelp: "Beim Zurückholen wird auch der jetzige Stand eine Version: Nichts geht verloren.",
  versionToCopy: "In meine Kopie",
  versionInCopy: (file, at, came, bytes) => `${name(file)} ist jetzt auf dem Stand von ${n.when(at)}: ${n.bytes(came)} kamen statt ${n.bytes(bytes)}`,
  versionBack: (file, at) => `${name(file)} ist wieder auf dem Stand von ${n.when(at)}`,
  changedMeanwhile: (file) => `${name(file)} hat sich inzwischen geändert. Nichts wurde ersetzt; sieh noch einmal nach.`,
  preview: "Zeigen",
  noPreview: "Diese Datei lässt sich hier nicht zeigen, aber herunterladen.",
  firstPart: (bytes) => `Gezeigt werden die ersten ${n.bytes(bytes)}.`,

  language: "Sprache",
  theme: "Hell oder dunkel",
  asSystem: "Wie das System",
  light: "Hell",
  dark: "Dunkel",
  rateLimit: "Hochladen höchstens mit",
  rateHelp: "Auf diesem Gerät. Dateien unter 64 kB werden nicht gebremst.",
  noLimit: "ohne Grenze",
  gentle: "was andere frei lassen",
  stagnation: "Stockung",
  stagnationHelp: "Summe der Zeiten, in denen diese Seite verspätet reagierte, während Dateien unterwegs waren (StagMeter aus dem Artikel zu WebR2sync). Sie sollte 0 sein.",
  stagnationOf: ({ stagnation, measured }) =>
    measured > 0 ? `${n.milliseconds(stagnation)} in ${n.duration(measured / 1000)}` : "noch war nichts unterwegs",
  lab: "Labor",
  labHelp: "Misst, wie dieser Browser und dieser Server abgleichen, neben den Systemen des Artikels zu WebR2sync.",
  openLab: "Zum Labor",
  labMissing: "Das Labor ist nicht angekommen. Lade die Seite neu.",
  session: "Angemeldet",
  sessionHelp: (host) => `Bei ${host}. Abmelden vergisst den Schlüssel auf diesem Gerät.`,
  signOut: "Abmelden",
  credits: "Icons und Zeichnungen gehören zu Deltic; die Schrift ist Atkinson Hyperlegible Next, SIL Open Font License 1.1.",
});
