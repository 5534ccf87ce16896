/** The screen of an administrator: volumes, tokens and connected clients. */
import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { serverTokens, type ServerToken } from "../api/shares";
import { volumeList } from "../files/folder";
import { t } from "../text";
import { Icon } from "../ui/Icon";
import { Name } from "../ui/Name";
import { loadInto, TokenRow } from "./Shared";
import { Unfinished } from "./Unfinished";

export function Server(): JSX.Element {
  const words = t();
  const state = useSignal<{ version: string; tokens: ServerToken[] } | undefined>(undefined);
  const load = () => void loadInto(state, serverTokens);
  useEffect(() => {
    load();
    const timer = setInterval(load, LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  const tokens = state.value?.tokens ?? [];
  const nameOf = (id: string | null) => tokens.find((token) => token.id === id)?.name;
  return (
    <div class="page">
      <div class="head">
        <h1>{words.server}</h1>
        {state.value && <span class="tag">{state.value.version}</span>}
      </div>
      <section class="card" aria-label={words.volumes}>
        <header>
          <h2>{words.volumes}</h2>
        </header>
        {volumeList.value?.map((volume) => (
          <div class="setr" role="group" aria-label={volume.name} key={volume.name}>
            <div>
              <b>
                <Name of={volume.name} />
              </b>
              <p class="help">
                {[
                  volume.bytes ? words.used(volume.bytes.used, volume.bytes.quota) : words.noQuota,
                  volume.versions ? words.keepsVersions : words.keepsNone,
                ].join(" · ")}
              </p>
            </div>
          </div>
        ))}
      </section>
      <section class="card" aria-label={words.tokens}>
        <header>
          <h2>{words.tokens}</h2>
          <span class="push" />
          <button class="btn ghost" onClick={load}>
            <Icon is="again" />
            {words.lookAgain}
          </button>
        </header>
        {tokens.map((token) => (
          <TokenRow token={token} key={token.id} done={load} revocable={!token.own && !token.starter}>
            <p class="help">
              {[
                token.connected > 0 ? words.connected(token.connected) : words.notConnected,
                token.own ? words.thisPage : "",
                token.made_by !== null ? words.madeBy(nameOf(token.made_by) ?? token.made_by) : "",
              ]
                .filter(Boolean)
                .join(" · ")}
            </p>
          </TokenRow>
        ))}
      </section>
      <Unfinished />
      <p class="help">{words.serverHelp}</p>
    </div>
  );
}

const LOOK_MS = 5_000;
