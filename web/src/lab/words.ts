/** Texts of the lab in the user's language. */
import { computed } from "@preact/signals";
import { format, language } from "../text";
import { formats, labEnglish, labGerman, type LabWords } from "../text/lab";

const words = computed(() => (language.value === "de" ? labGerman(format(), formats("de")) : labEnglish(format(), formats("en-GB"))));

/** Called while drawing, so that a new language draws the lab again. */
export const lab = (): LabWords => words.value;
