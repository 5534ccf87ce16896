import { openSession } from "./session";
// The token leaves the address bar before anything else.
openSession();

import { render } from "preact";
import { keepSession } from "./api/session";
import { startFiles } from "./files/folder";
import { startKeys } from "./files/keys";
import { startRouting } from "./route";
import { startTheme } from "./theme";
import { App } from "./ui/App";
import "./style/tokens.css";
import "./style/base.css";
import "./style/files.css";
import "./style/screens.css";
import "./style/narrow.css";

startTheme();
startRouting();
startFiles();
keepSession();
startKeys();
render(<App />, document.getElementById("page")!);
