/** Tells the machine of a measurement: the browser, the system and the number of processors. */

/** A part of the interface that TypeScript does not declare yet. */
interface Told {
  userAgentData?: { brands: readonly { brand: string; version: string }[]; platform: string };
}

export function machine(processors: (count: number) => string): string {
  const { userAgentData: told } = navigator as Navigator & Told;
  const agent = navigator.userAgent;
  const brands = told?.brands.filter(({ brand }) => !/not.*brand/i.test(brand)) ?? [];
  const brand = brands.find(({ brand }) => brand !== "Chromium") ?? brands[0];
  const named = /(Firefox|Edg|Version|HeadlessChrome|Chrome)\/(\d+)/.exec(agent);
  const browser = brand ? `${brand.brand} ${brand.version}` : named ? `${named[1] === "Version" ? "Safari" : named[1]} ${named[2]}` : "";
  const system = told?.platform || (/Windows|Mac OS X|Android|iPhone|Linux/.exec(agent)?.[0] ?? "");
  return [browser, system, processors(navigator.hardwareConcurrency)].filter(Boolean).join(", ");
}
