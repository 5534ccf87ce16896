/** Addresses of the engine's modules; undefined if the modules were not built before the page. */
const built = import.meta.glob<string>("../../../engine/dist/*.wasm", { query: "?url", import: "default", eager: true });

export const modules = {
  upload: built["../../../engine/dist/push.wasm"],
  download: built["../../../engine/dist/pull.wasm"],
};
