// The part of a client that is the same in browsers and in Node.
import { Engine } from "./engine.js";

/** A server with a token. Each end of the protocol is loaded and connected at its first use. */
export class Client {
  #socket;
  #token;
  #load;
  #files;
  #connections = new Map();

  /** `url` is the address of the server. `load("push" | "pull")` returns a module for `Engine.load`. */
  constructor({ url, token, files, load }) {
    this.#socket = new URL("v1/ws", url.replace(/\/?([?#].*)?$/, "/")).href.replace(/^http/, "ws");
    this.#token = token;
    this.#files = files;
    this.#load = load;
  }

  /** Returns a connection of this end, a new one if there is none. */
  connect(end) {
    const found = this.#connections.get(end);
    if (found) return found;
    const connection = this.#connected(end);
    this.#connections.set(end, connection);
    const gone = () => this.#connections.get(end) === connection && this.#connections.delete(end);
    connection.then((connection) => connection.addEventListener("end", gone), gone);
    return connection;
  }

  async #connected(end) {
    const engine = await Engine.load(await this.#load(end), this.#files);
    return engine.connect(this.#socket, this.#token);
  }

  /** Closes all connections. Transfers that run fail. */
  close() {
    for (const connection of this.#connections.values()) connection.then((open) => open.close(), () => undefined);
    this.#connections.clear();
  }
}
