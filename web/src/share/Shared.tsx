/** The screen of shared links: links made with this token, with expiry times and buttons to revoke. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { revokeShare, shares, type Share } from "../api/shares";
import { reason } from "../files/actions";
import { t } from "../text";
import { Icon } from "../ui/Icon";
import { say } from "../ui/message";
import { Name } from "../ui/Name";

export function Shared(): JSX.Element {
  const words = t();
  const list = useSignal<readonly Share[] | undefined>(undefined);
  const load = () => void loadInto(list, shares);
  useEffect(load, []);
  return (
    <div class="page">
      <div class="head">
        <h1>{words.shared}</h1>
      </div>
      <p class="soft">{words.sharedHelp}</p>
      {list.value?.length === 0 && <p>{words.nothingShared}</p>}
      {list.value && list.value.length > 0 && (
        <section class="card" aria-label={words.shared}>
          {list.value.map((share) => (
            <TokenRow token={share} key={share.id} done={load} />
          ))}
        </section>
      )}
    </div>
  );
}

export async function loadInto<T>(into: Signal<T | undefined>, load: () => Promise<T>): Promise<void> {
  try {
    into.value = await load();
  } catch (error) {
    say(reason(error), "bad");
  }
}

interface RowProps {
  token: Share;
  /** Runs after the token was revoked. */
  done: () => void;
  /** False for tokens that cannot be revoked here. */
  revocable?: boolean;
  children?: ComponentChildren;
}

export function TokenRow({ token, done, revocable = true, children }: RowProps): JSX.Element {
  const words = t();
  async function revoke(): Promise<void> {
    try {
      await revokeShare(token.id);
      say(words.revoked(token.name));
      done();
    } catch (error) {
      say(reason(error), "bad");
    }
  }
  return (
    <div class="setr" role="group" aria-label={token.name}>
      <div>
        <b>
          <Name of={token.name} />
        </b>
        <p class="help">
          {[
            placeOf(token),
            rightsOf(token),
            token.expires === null ? words.neverEnds : words.endsAt(token.expires * 1000),
            token.used === null ? words.neverUsed : words.lastUsed(token.used * 1000, token.visits),
          ].join(" · ")}
        </p>
        {children}
      </div>
      {revocable && (
        <button class="btn danger" onClick={() => void revoke()}>
          <Icon is="x" />
          {words.revoke}
        </button>
      )}
    </div>
  );
}

function placeOf({ volumes, path }: Share): string {
  const all = volumes ? volumes.join(", ") : t().allVolumes;
  return path === null ? all : `${all}/${path}`;
}

function rightsOf({ read, write, delete: mayDelete }: Share): string {
  const words = t();
  const some = read && write ? words.mayBoth : read ? words.mayRead : words.mayAdd;
  return mayDelete ? `${some}, ${words.mayDelete}` : some;
}
