import { openSession } from "./session";
// The token leaves the address bar before anything else.
openSession();

import { render } from "preact";
import { followNetwork } from "./api/http";
import { keepSession } from "./api/session";
import { startFiles } from "./files/folder";
import { startSearch } from "./files/searching";
import { startKeys } from "./files/keys";
import { startFolders } from "./live/folders";
import { startRouting } from "./route";
import { startTheme } from "./theme";
import { startGentle } from "./transfer/measure";
import { startRate } from "./transfer/rate";
import { startTransfers } from "./transfer/restore";
import { startStagMeter } from "./transfer/stagnation";
import { App } from "./ui/App";
import "./style/tokens.css";
import "./style/base.css";
import "./style/files.css";
import "./style/screens.css";
import "./style/live.css";
import "./style/narrow.css";

startTheme();
startRouting();
startFiles();
startSearch();
keepSession();
followNetwork();
startKeys();
startRate();
startGentle();
startTransfers();
startFolders();
startStagMeter();
render(<App />, document.getElementById("page")!);
