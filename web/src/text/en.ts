/** Texts of the page in English. `name()` puts names into sentences, and isolates the text direction of each name. */
import type { Status } from "../live/follower";
import type { Trouble } from "../live/steps";
import type { Step } from "../live/types";
import type { ChangeMap } from "../api/volumes";
import type { Failure, Totals } from "../transfer/queue";
import { name, type Numbers } from "./numbers";

/** The day inside a sentence: today, and not Today. */
const inside = (when: string): string => when.replace(/^(Today|Yesterday)/, (day) => day.toLowerCase());

export const english = (n: Numbers) => ({
  lang: "en",
  nav: "Main",
  skip: "Skip to the content",
  files: "Files",
  transfers: "Transfers",
  settings: "Settings",
  search: "Search",
  searchIn: (folder: string) => `Search in ${name(folder)}`,
  close: "Close",
  cancel: "Cancel",
  tryAgain: "Try again",
  page: (what: string) => `${what} · Deltic`,

  // Sign in
  signIn: "Sign in",
  openAddress: "Open the address that the server printed",
  openAddressHelp: "It has the key in it, and you are in without typing.",
  paste: "Or paste the address or the token",
  stay: "Stay signed in on this device",
  signInEnded: "Your sign-in ended",
  signInEndedHelp: "The token was revoked, or has ended. Open the address that the server printed at its last start.",
  signedOut: "You are signed out",
  signedOutHelp: "This device has forgotten the token.",
  signedOutLater: "The server cannot end your sign-in yet. Leave this page open: the server ends your sign-in as soon as it answers.",
  noToken: "There is no token in this. It begins with “dlt_”.",
  unknownToken: "The server does not know this token. It may be revoked, or a letter is missing.",
  tooManyTries: (seconds: number) => `Too many wrong tokens came from here. Try again in ${n.count(seconds)} s.`,
  encrypted: (host: string) => `${host} · encrypted`,
  plainHost: (host: string) => `${host} · this machine alone`,
  openHost: (host: string) => `${host} · not encrypted`,
  artTitle: "A file of 214 MB, of which 1.9 kB is new",
  artMoves: "1.9 kB moves",
  artServer: "on the server",
  artHelp: "Deltic looks at what the other side has, and sends what is new.",
  kept: "kept",
  moved: "moved",
  fresh: "new",

  // Volumes and folders
  volumes: "Volumes",
  noVolumes: "This token opens no volume.",
  readOnly: "read only",
  writeOnly: "write only",
  used: (bytes: number, quota: number | null) =>
    quota === null ? `${n.bytes(bytes)} used` : `${n.bytes(bytes)} of ${n.bytes(quota)} used`,
  folder: "Folder",
  newFolder: "New folder",
  addFiles: "Add files",
  addFolder: "Add a folder",
  nameColumn: "Name",
  size: "Size",
  changed: "Changed",
  selectAll: "Select all",
  select: (file: string) => `Select ${name(file)}`,
  moreFor: (file: string) => `More for ${name(file)}`,
  more: "More",
  clearSelection: "Clear the selection",
  selected: (count: number) => `${n.count(count)} selected`,
  download: "Download",
  downloadZip: "Download as ZIP",
  updateMine: "Update my older copy",
  updated: (file: string, came: number, bytes: number) => `${name(file)} is up to date: ${n.bytes(came)} came instead of ${n.bytes(bytes)}`,
  rename: "Rename",
  moveTo: "Move",
  remove: "Delete",
  deleteKey: "Del",
  sortBy: (column: string) => `Sort by ${column}`,
  listing: "Listing goes on",
  foot: (files: number, folders: number, bytes: number) =>
    `${[files === 1 ? "1 file" : `${n.count(files)} files`, folders === 0 ? "" : folders === 1 ? "1 folder" : `${n.count(folders)} folders`]
      .filter(Boolean)
      .join(" and ")}, ${n.bytes(bytes)}.`,
  footKeys: "Arrow keys move, Space selects, Enter opens.",
  nothingHere: "Nothing here yet",
  nothingHereHelp: "Drop files or a folder anywhere on this window.",
  nothingHereRead: "Files that others add appear here.",
  firstTime: "the first time",
  fromThenOn: "from then on",
  terminal: "From a terminal:",
  noFolder: "There is no such folder",
  noFolderHelp: (path: string) => `Nothing is at ${name(path)}, or this token does not open it.`,
  noSuchName: (query: string) => `No name has ${name(query)}.`,
  found: (count: number, query: string) =>
    count === 1 ? `1 name has ${name(query)}` : `${n.count(count)} names have ${name(query)}`,
  inSubfolders: "In subfolders",
  searching: "Searching the subfolders",
  searchMore: "Search on",
  foundBelow: (count: number) => (count === 1 ? "1 name in subfolders." : `${n.count(count)} names in subfolders.`),
  clear: "Clear",
  details: "Details",
  kind: "Kind",
  kindFolder: "folder",
  kindFile: "file",
  kindLink: "link on the server's disk",
  kindSpecial: "device or pipe",
  path: "Path",
  cannotRead: "The folder cannot be listed",
  dropInto: (folder: string) => `Drop into ${name(folder)}`,
  dropHelp: (count: number) =>
    count > 1 ? `${n.count(count)} items. Nothing is replaced without a question.` : "Nothing is replaced without a question.",
  dropNowhere: "Nothing can be dropped here",
  dropNowhereHelp: "This token may not write in this place.",

  // Dialogs about files
  folderName: "Name of the folder",
  fileName: "Name of the file",
  create: "Make the folder",
  nameEmpty: "A name has at least one letter.",
  nameSlash: "A name has no slash.",
  nameTaken: (file: string) => `${name(file)} is here already.`,
  nameRefused: (detail: string) => `The server refuses this name: ${detail}`,
  renameTitle: (file: string) => `Rename ${name(file)}`,
  moveTitle: (count: number, first: string) => (count === 1 ? `Move ${name(first)}` : `Move ${n.count(count)} files`),
  moveHere: (folder: string) => `Move to ${name(folder)}`,
  noFolders: "No folders in here",
  deleteTitle: (count: number, first: string) => (count === 1 ? `Delete ${name(first)}?` : `Delete ${n.count(count)} entries?`),
  deleteFor: "The volume keeps no versions, so this cannot be undone.",
  deleteFolders: "Folders are deleted with everything in them.",
  deleteVersions: "Files stay as versions and can be restored.",
  deleted: (count: number) => (count === 1 ? "1 file deleted" : `${n.count(count)} files deleted`),
  deletedOne: (file: string) => `${name(file)} deleted`,
  undo: "Undo",
  movedBack: (count: number) => (count === 1 ? "Moved back" : `${n.count(count)} moved back`),
  restored: (count: number) => (count === 1 ? "1 file is back" : `${n.count(count)} files are back`),
  changedSince: (file: string) => `${name(file)} changed since you saw it, and was not deleted. Look at it again.`,
  movedFiles: (count: number, folder: string) =>
    count === 1 ? `1 file moved to ${name(folder)}` : `${n.count(count)} files moved to ${name(folder)}`,
  renamed: (file: string) => `Renamed to ${name(file)}`,
  made: (folder: string) => `Folder ${name(folder)} made`,
  failedFor: (file: string, why: string) => `${name(file)}: ${why}`,
  notNow: (detail: string) => `The server refused: ${detail}`,

  // The line
  lineLabel: "What moves",
  nothingMoves: "Nothing moves",
  moves: (t: Totals) => `${n.count(t.moving + t.waiting)} move`,
  left: (bytes: number) => `${n.bytes(bytes)} left`,
  leftOf: (t: Totals) => `of ${n.bytes(t.bytes)}`,
  needYou: (count: number) => (count === 1 ? "1 needs you" : `${n.count(count)} need you`),
  lastTime: (at: number, files: number, { bytes, kept, sent }: Totals) =>
    `Last: ${n.time(at)}, ${files === 1 ? "1 file" : `${n.count(files)} files`}, ${n.bytes(sent)}${kept > 0 ? ` instead of ${n.bytes(bytes)}` : ""}`,
  noAnswer: (seconds: number) => `The server does not answer. Next try in ${n.count(seconds)} s.`,
  waitAndLose: (count: number) =>
    count === 0 ? "" : count === 1 ? "1 transfer waits and loses nothing." : `${n.count(count)} transfers wait and lose nothing.`,
  tryNow: "Try now",
  on: "The server answers",

  // Transfers
  leftToSend: (t: Totals) => `of ${n.bytes(t.bytes)} is left to send`,
  secondsLeft: (seconds: number) => `${n.duration(seconds)} left`,
  perSecond: (bytes: number) => `${n.bytes(bytes)}/s`,
  sent: "sent",
  toSend: "to send",
  needYouTitle: "Need you",
  movingTitle: "Moving",
  doneTitle: "Done",
  retryAll: (count: number) => (count === 1 ? "Retry" : `Retry all ${n.count(count)}`),
  retryFailed: "Retry all failed",
  copyNames: "Copy the names",
  copied: "The names are copied.",
  pause: (what: string) => `Pause ${name(what)}`,
  resume: (what: string) => `Resume ${name(what)}`,
  cancelOne: (what: string) => `Cancel ${name(what)}`,
  forget: (what: string) => `Take ${name(what)} off the list`,
  showFolder: (what: string) => `Show the folder of ${name(what)}`,
  showFiles: (what: string) => `Show the files of ${name(what)}`,
  filesCount: (count: number) => (count === 1 ? "1 file" : `${n.count(count)} files`),
  stage: { reading: "Reading", matching: "Matching", sending: "Sending", writing: "Writing" },
  waiting: "Waiting",
  paused: "Paused by you",
  doneAt: (at: number) => `Done ${n.time(at)}`,
  doneOf: (done: number) => `${n.count(done)} done`,
  failedOf: (failed: number) => `${n.count(failed)} failed`,
  equal: "Equal on both sides, nothing moved",
  equalOf: (count: number) => `${n.count(count)} equal on both sides`,
  leftAlone: "The server's version stayed",
  cancelled: "Cancelled",
  asks: "Waits for your choice",
  choose: "Choose",
  allNew: (bytes: number) => `${n.bytes(bytes)}, all of it new`,
  partNew: (fresh: number, bytes: number) => `${n.bytes(fresh)} of ${n.bytes(bytes)} new`,
  saved: (bytes: number, of: number) => `${n.bytes(bytes)} saved, ${Math.floor((bytes / of) * 100)} %`,
  sentOf: (sent: number, bytes: number) => `${n.bytes(sent)} of ${n.bytes(bytes)} sent`,
  stopped: "Stopped",
  stayOpen: "A page that is closed sends nothing. Transfers that have not ended go on at your next visit.",
  earlierTitle: (count: number) => (count === 1 ? "1 transfer of an earlier sign-in" : `${n.count(count)} transfers of an earlier sign-in`),
  earlierHelp: "Somebody else may have begun them. Nothing of them is sent unless you go on with them here.",
  earlierGoOn: "Go on as the present sign-in",
  discard: "Discard",
  chooseAgain: "Choose the file again",
  allowAgain: "Go on",
  notThose: (count: number) =>
    count === 1 ? "1 file has another name, length or time than the one that is missing." : `${n.count(count)} files have other names, lengths or times than those that are missing.`,
  clearList: "Clear",
  others: (count: number) => `and ${n.count(count)} more`,
  failure: (why: Failure): string => {
    switch (why.kind) {
      case "full":
        return "The volume is full. Make room, then try again.";
      case "unreadable":
        return "The file cannot be read, or another program wrote to it. Try again when it is done.";
      case "choose":
        return "The page was closed meanwhile. Choose the file again, and the rest is sent.";
      case "permission":
        return "The browser asks again before this page may read the file.";
      case "forbidden":
        return "This token may not write here.";
      case "folder":
        return "Something else has this name on the server, or is being written there.";
      case "too-large":
        return "The file is larger than the server takes.";
      case "ended":
        return "Your sign-in ended before this was sent.";
      case "later":
        return "You decide later. Nothing was replaced.";
      case "name":
        return `The server refuses this name: ${why.detail}`;
      case "other":
        return `The server refused: ${why.detail}`;
    }
  },

  // Conflicts
  conflictTitle: (file: string) => `${name(file)} is on the server already, with other content`,
  conflictHelp: "Nothing is replaced before you choose.",
  which: "Which version",
  mine: "Mine",
  theirs: "Theirs",
  both: "Keep both",
  thisDevice: "this device",
  onServer: "on the server",
  length: "Length",
  toSendFact: "To send",
  bothHelp: (there: string, mine: string) => `Theirs stays ${name(there)}. Mine becomes ${name(mine)}.`,
  sameForAll: (count: number) => (count === 1 ? "The same for the other conflict" : `The same for the other ${n.count(count)} conflicts`),
  sameForLater: "The same for all further conflicts of this upload",
  later: "Decide later",
  keepMine: "Keep mine",
  keepTheirs: "Keep theirs",
  keepBoth: "Keep both",
  chooseFirst: "Choose a version",

  // Shared links and the server
  shared: "Shared",
  share: "Share",
  sharedHelp: "Links that you made here. A revoked link ends within a second. All of them end when you sign out on this device.",
  nothingShared: "Nothing is shared.",
  shareTitle: (folder: string) => `Share ${name(folder)}`,
  shareHelp: "Whoever has the link opens this folder and nothing else. The link ends at the latest when your sign-in ends.",
  shareName: "Who is the link for?",
  shareRights: "May",
  mayRead: "read",
  mayAdd: "add and replace files, and see none",
  mayBoth: "read, add and replace",
  mayDelete: "delete",
  shareEnds: "Ends after",
  days: (count: number) => (count === 1 ? "1 day" : `${n.count(count)} days`),
  neverEnds: "never ends",
  endsAt: (at: number) => `ends ${inside(n.when(at))}`,
  makeLink: "Make the link",
  linkTitle: (folder: string) => `The link to ${name(folder)}`,
  linkOnce: "This is the only time the link is shown.",
  link: "Link",
  copyLink: "Copy the link",
  linkCopied: "The link is copied.",
  revoke: "Revoke",
  revoked: (what: string) => `${name(what)} is revoked`,
  allVolumes: "all volumes",
  server: "Server",
  tokens: "Tokens",
  noQuota: "no quota",
  keepsVersions: "keeps versions",
  keepsNone: "This volume keeps no versions.",
  lookAgain: "Look again",
  connected: (count: number) => (count === 1 ? "connected" : `connected ${n.count(count)} times`),
  lastUsed: (at: number, visits: number) => `last used ${inside(n.when(at))}, ${visits === 1 ? "1 visit" : `${n.count(visits)} visits`}`,
  neverUsed: "never used",
  unfinished: "Unfinished uploads",
  unfinishedHelp: (arrived: number, bytes: number, ends: number) =>
    `${n.bytes(arrived)} of ${n.bytes(bytes)} arrived, kept until ${inside(n.when(ends))}`,
  cancelUpload: (file: string) => `Cancel the upload of ${name(file)}`,
  uploadCancelled: (file: string) => `The upload of ${name(file)} was cancelled`,
  notConnected: "not connected",
  thisPage: "this page",
  madeBy: (maker: string) => `made by ${name(maker)}`,
  serverHelp: "Volumes and quotas are changed in the settings of the server, which is then started again.",

  // Synced folders
  synced: "Synced",
  syncedHelp: "Folders of this device that follow edits both ways while this page is open.",
  syncedFoot: "When this page is closed, nothing is lost: the next visit brings both sides together. To follow edits always, run “deltic watch”.",
  syncFolder: (folder: string) => `Sync ${name(folder)} with a folder`,
  syncChoose: "Open a folder of a volume first. Then this screen syncs it with a folder of this device.",
  syncedTwice: "This folder, or a folder inside or above it, is synced already.",
  earlierSynced: (count: number) => (count === 1 ? "1 synced folder of an earlier sign-in" : `${n.count(count)} synced folders of an earlier sign-in`),
  earlierSyncedHelp: "Somebody else may have begun the sync. Nothing moves unless you go on here.",
  pauseSync: "Pause",
  resumeSync: "Resume",
  stopSync: "Stop syncing",
  allowFolder: "Allow again",
  bringBack: "Bring them back",
  deleteToo: (files: number) => (files === 1 ? "Delete 1 file" : `Delete ${n.count(files)} files`),
  lastEdits: "Last edits",
  syncStatus: (status: Status): string => {
    switch (status.is) {
      case "starting":
        return "Looking at both sides";
      case "synced":
        return "In sync";
      case "working":
        return status.left === 1 ? "1 file to go" : `${n.count(status.left)} files to go`;
      case "offline":
        return "Offline";
      case "paused":
        return "Paused by you";
      case "elsewhere":
        return "Followed in another tab";
      case "permission":
        return "Paused: permission";
      case "missing":
        return "Paused: the folder is gone";
      case "refused":
        return "Paused: refused";
      case "asking":
        return "Paused: many deletions";
    }
  },
  syncToDo: (status: Status): string => {
    switch (status.is) {
      case "permission":
        return "The browser asks again before this page may read and write the folder. Changes made meanwhile move once you allow it.";
      case "missing":
        return "The folder was moved or deleted. Nothing is deleted on the server. Put the folder back, or stop syncing and choose it anew.";
      case "asking":
        return `${n.count(status.guard.files)} of ${n.count(status.guard.of)} files are gone ${status.guard.end === "here" ? "on the server" : "on this device"}. Delete them ${status.guard.end === "here" ? "on this device" : "on the server"} too?`;
      case "offline":
        return "Edits wait here, and move as soon as the server answers.";
      default:
        return "";
    }
  },
  syncTrouble: (why: Trouble["why"]): string => {
    switch (why.is) {
      case "folds":
        return `is the same name as ${name(why.with)} on some systems. Rename one of the two.`;
      case "other":
        return why.end === "here" ? "cannot be read on this device, and stays as it is." : "is a link or another special entry on the server, and stays as it is.";
      case "name":
        return "has a name that no file can have, and stays on the server.";
      case "failed":
        return `did not move: ${why.detail}`;
    }
  },
  syncEdit: (step: Step, bytes: number, ms: number): string => {
    const secs = `${(ms / 1000).toFixed(2)} s`;
    if (step.is === "delete") return step.end === "here" ? "deleted here" : "deleted on the server";
    if (step.is === "aside") return `kept as another name: both sides had changed`;
    if (step.is === "move") return "renamed";
    return `${n.bytes(bytes)} in ${secs}`;
  },

  // Versions and previews
  versions: "Versions",
  present: "Now",
  restore: "Restore",
  lastChange: "Last change",
  lastChangeMoved: "What the last change moved",
  byWhom: (token: string) => `by ${name(token)}`,
  changeShort: ({ kept, moved, new: fresh }: ChangeMap) =>
    kept + moved === 0 && fresh > 0 ? "all new" : fresh > 0 ? `${n.bytes(fresh)} new` : moved > 0 ? `${n.bytes(moved)} moved` : "nothing new",
  changeInWords: ({ kept, moved, new: fresh }: ChangeMap) => `kept ${n.bytes(kept)}, moved ${n.bytes(moved)}, new ${n.bytes(fresh)}`,
  comparing: "Comparing with the version before",
  changeUnknown: "What changed is not known.",
  whatChanged: "What changed?",
  deletedFiles: "Deleted files",
  moreDeleted: (count: number) => `${n.count(count)} more are not shown. Open a folder further down to see its files.`,
  deletedAt: (at: number) => `deleted ${inside(n.when(at))}`,
  noDeleted: "No deleted file is kept here.",
  deletedHelp: "A restored file stands in its old place again.",
  asOf: "As of…",
  past: (folder: string) => `${folder}, as it was`,
  pastMoment: "Moment",
  pastHelp: "A restore makes new versions: nothing is deleted, and files that came later stay.",
  pastAgo: (what: "hour" | "day" | "week" | "month") => ({ hour: "An hour ago", day: "A day ago", week: "A week ago", month: "30 days ago" })[what],
  pastIs: (now: "same" | "other" | "gone") => ({ same: "as now", other: "another version now", gone: "gone now" })[now],
  pastNone: "The folder had no entries then, or they are not kept.",
  pastYounger: (count: number) => (count === 1 ? "1 entry came later, or its version is no longer kept." : `${n.count(count)} entries came later, or their versions are no longer kept.`),
  pastRestoreAll: "Restore all",
  pastRestoreAsk: (folder: string, at: number) => `Restore ${name(folder)} as of ${inside(n.when(at))}?`,
  pastRestoring: (count: number) => `${n.count(count)} restored so far …`,
  pastRestored: (count: number) => (count === 0 ? "All files are as they were" : count === 1 ? "1 file restored" : `${n.count(count)} files restored`),
  pastSaveAll: "Download all",
  pastSaved: (count: number) => (count === 1 ? "1 file downloaded" : `${n.count(count)} files downloaded`),
  fileBack: (file: string) => `${name(file)} is back`,
  replacedAt: (at: number) => `replaced ${inside(n.when(at))}`,
  noVersions: "The file was never replaced.",
  versionsHelp: "Restoring makes the present file a version too: nothing is lost.",
  versionToCopy: "Into my copy",
  versionInCopy: (file: string, at: number, came: number, bytes: number) =>
    `${name(file)} is the version of ${inside(n.when(at))} now: ${n.bytes(came)} came instead of ${n.bytes(bytes)}`,
  versionBack: (file: string, at: number) => `${name(file)} is the version of ${inside(n.when(at))} again`,
  changedMeanwhile: (file: string) => `${name(file)} changed meanwhile. Nothing was replaced; look at it again.`,
  preview: "Show",
  noPreview: "This file cannot be shown here. It can be downloaded.",
  firstPart: (bytes: number) => `The first ${n.bytes(bytes)} are shown.`,

  // Settings
  language: "Language",
  theme: "Light or dark",
  asSystem: "As the system",
  light: "Light",
  dark: "Dark",
  rateLimit: "Uploads send at most",
  rateHelp: "On this device. Files below 64 kB are not slowed down.",
  noLimit: "no limit",
  gentle: "what others leave free",
  stagnation: "Stagnation",
  stagnationHelp: "Sum of the times for which this page reacted late while files moved (StagMeter of the WebR2sync paper). It should be 0.",
  stagnationOf: ({ stagnation, measured }: { stagnation: number; measured: number }) =>
    measured > 0 ? `${n.milliseconds(stagnation)} in ${n.duration(measured / 1000)}` : "nothing has moved yet",
  lab: "Lab",
  labHelp: "Measures how this browser and this server sync, beside the systems of the WebR2sync paper.",
  openLab: "Open the lab",
  labMissing: "The lab did not arrive. Load the page again.",
  session: "Signed in",
  sessionHelp: (host: string) => `At ${host}. Signing out forgets the token on this device.`,
  signOut: "Sign out",
  credits: "Icons and drawings are part of Deltic; the typeface is Atkinson Hyperlegible Next, SIL Open Font License 1.1.",
});

export type Words = ReturnType<typeof english>;
