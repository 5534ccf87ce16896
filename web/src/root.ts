/** The base address of the server. A proxy may serve several servers under paths of one origin. */
let base = { of: "", href: "", path: "" };

/** Returns the base of this page. Each file of a transfer asks for the base, so the address is parsed once. */
function parsed(): typeof base {
  const of = document.baseURI;
  if (base.of !== of) {
    const { href, pathname: path } = new URL(".", of);
    base = { of, href, path };
  }
  return base;
}

/** Returns the base address of the server. */
export const root = (): string => parsed().href;

/** Returns a name in the storage of the origin for this server alone. */
export function scoped(name: string): string {
  const { path } = parsed();
  return path === "/" ? name : name + path;
}
