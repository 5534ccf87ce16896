import type { JSX } from "preact";

interface SelectProps {
  label: string;
  now: string;
  options: readonly (readonly [value: string, text: string])[];
  choose: (next: string) => void;
  disabled?: boolean;
}

/** A choice among options, as a menu of the browser. */
export function Select({ label, now, options, choose, disabled = false }: SelectProps): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <select class="in" value={now} disabled={disabled} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([value, text]) => (
          <option value={value} key={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
