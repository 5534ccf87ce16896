// Sends a file, edits it, sends the edit, and fetches the result. Arguments: address, token, volume, file.
import { appendFileSync } from "node:fs";
import { open } from "deltic";

const [url, token, volume, file] = globalThis.Deno?.args ?? process.argv.slice(2);
const server = open({ url, token });
const place = { volume, path: "example/data" };

const first = await server.upload(file, place);
appendFileSync(file, "one more line");
const edit = await server.upload(file, place);
const copy = await server.download(place, `${file}.copy`);
appendFileSync(file, " and another");
await server.upload(file, place);
const update = await server.download(place, `${file}.copy`);
console.log(JSON.stringify({ first: first.sent, edit: edit.sent, copy: copy.received, update: update.received }));
server.close();
