// Rules that the compiler does not know: no markup from strings, no style attributes, no address of another host.
import { readdirSync, readFileSync } from "node:fs";

const forbidden = [
  [/innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write/, "markup from a string"],
  [/\bstyle=/, "a style attribute, which the policy refuses"],
  [/\beval\(|new Function\(/, "code from a string"],
  [/https?:\/\/(?!127\.0\.0\.1|www\.w3\.org)/, "an address of another host"],
];
let wrong = 0;
for (const folder of ["src", "public"]) {
  const root = new URL(`../${folder}/`, import.meta.url);
  for (const file of readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())) {
    const path = `${file.parentPath ?? file.path}/${file.name}`;
    readFileSync(path, "utf8").split("\n").forEach((line, i) => {
      for (const [pattern, what] of forbidden)
        if (pattern.test(line)) {
          console.error(`${path}:${i + 1}: ${what}`);
          wrong++;
        }
    });
  }
}
process.exit(wrong ? 1 : 0);
