// Delta sync for a Web Worker of a page. Reads of files block, so pages cannot use this module outside workers.
import { BlobFiles, pullInto, pullStaged, UnreadableFile } from "./blobs.js";
import { MemoryFile } from "./memory.js";
import { Client } from "./client.js";

export { Connection, Engine, TransferError } from "./engine.js";
export { BlobFiles, MemoryFile, pullInto, pullStaged, UnreadableFile };

/** Returns a client for the server at `url`. Nothing is sent before the first transfer. */
export function open({ url, token, modules = shipped }) {
  return new PageClient({ url, token, modules });
}

const shipped = {
  push: () => fetch(new URL("../dist/push.wasm", import.meta.url)),
  pull: () => fetch(new URL("../dist/pull.wasm", import.meta.url)),
};

class PageClient {
  #files = new BlobFiles();
  #client;

  constructor({ url, token, modules }) {
    this.#client = new Client({ url, token, files: this.#files, load: (end) => modules[end]() });
  }

  async upload(file, place, options) {
    const opened = this.#files.open(file);
    try {
      return await (await this.#client.connect("push")).push({ ...place, ...opened }, options);
    } catch (error) {
      throw this.#files.reason(opened.file, error);
    } finally {
      this.#files.close(opened.file);
    }
  }

  async download(place, old = null, options) {
    const root = await navigator.storage.getDirectory();
    const name = `deltic-${crypto.randomUUID()}`;
    const staged = await root.getFileHandle(name, { create: true });
    const discard = () => root.removeEntry(name).catch(() => undefined);
    try {
      const result = await pullStaged(await this.#client.connect("pull"), this.#files, { ...place, staged, old }, options);
      if (result.put) return { ...result, file: await staged.getFile(), discard };
      await discard();
      return { ...result, file: old, discard };
    } catch (error) {
      await discard();
      throw error;
    }
  }

  close() {
    this.#client.close();
  }
}
