/** The address below which the server is: a proxy may serve several servers below paths of one origin. */
export const root = (): string => new URL(".", document.baseURI).href;

/** Returns a name in the storage of the origin for this server alone. */
export function scoped(name: string): string {
  const path = new URL(root()).pathname;
  return path === "/" ? name : name + path;
}
