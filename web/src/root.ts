/** Returns the base address of the server. A proxy may serve several servers under paths of one origin. */
export const root = (): string => new URL(".", document.baseURI).href;

/** Returns a name in the storage of the origin for this server alone. */
export function scoped(name: string): string {
  const path = new URL(root()).pathname;
  return path === "/" ? name : name + path;
}
