/** A dialog by the browser's `<dialog>` element: holds the focus, restores the focus at the end, closes on Escape. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { t } from "../text";
import { Icon } from "./Icon";

interface Props {
  title: string;
  help?: string;
  small?: boolean;
  onClose: () => void;
  onSubmit?: () => void;
  closeLabel?: string;
  foot: ComponentChildren;
  children?: ComponentChildren;
}

let ids = 0;

export function Dialog(props: Props): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useRef(`dialog-${++ids}`).current;
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={`dlg ${props.small ? "small-d" : ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          props.onSubmit?.();
        }}
      >
        <div class="dh">
          <div>
            <h1 id={id}>{props.title}</h1>
            {props.help && <p class="soft">{props.help}</p>}
          </div>
          <button type="button" class="btn ghost icon" aria-label={props.closeLabel ?? t().close} onClick={props.onClose}>
            <Icon is="x" />
          </button>
        </div>
        {props.children && <div class="body">{props.children}</div>}
        <div class="df">{props.foot}</div>
      </form>
    </dialog>
  );
}
