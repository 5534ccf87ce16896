//! Plain HTTP requests to a server.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use deltic_net::SyncError;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::handshake::is_not_http;
use super::refusal::{detail, retry_after};
use super::{Address, Credentials, NO_TOKEN, failed};
use crate::percent::escape;
use crate::trust::TlsFault;

/// Longest time for an answer, including the time to send the request's body.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(120);
/// Longest answer that is read, in bytes.
const MAX_ANSWER: usize = 4 << 20;

/// An old version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct KeptVersion {
    /// Identifier of this version among the versions of its file.
    pub version: String,
    /// Time at which the version was replaced or removed, in seconds since 1970.
    pub replaced: i64,
    /// Length of the version, in bytes.
    pub bytes: u64,
    /// Time at which the version was created, in seconds since 1970, if the server knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<i64>,
    /// The change from the version before, if the server knows it without reading the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<KnownChange>,
}

/// Numbers of bytes that the change of a file kept, moved and added.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct KnownChange {
    /// Bytes of the version before, in the same order.
    pub kept: u64,
    /// Bytes of the version before, in another order.
    pub moved: u64,
    /// Bytes that the version before does not have.
    pub new: u64,
    /// Bytes that were kept, that moved and that are new, in equal parts of the file.
    pub buckets: Vec<[u64; 3]>,
    /// Time of the change, in seconds since 1970.
    pub at: u64,
    /// Name of the token that made the change, if the server tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A volume of a server, with the rights of the client's token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VolumeRights {
    /// Name of the volume.
    pub name: String,
    /// True if files may be read.
    pub read: bool,
    /// True if files may be written.
    pub write: bool,
    /// Use of the volume's quota, if the volume has one.
    pub bytes: Option<QuotaUse>,
    /// Use of the token's own quotas in this volume, if the token has any.
    pub token: Option<TokenQuotas>,
}

/// Use of a quota of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct QuotaUse {
    /// Bytes in use.
    pub used: u64,
    /// Most bytes; `None` without a limit.
    pub quota: Option<u64>,
}

/// Use of a token's own quotas.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TokenQuotas {
    /// Bytes of the token.
    pub bytes: QuotaUse,
}

/// The volumes of a server, as it lists them.
#[derive(Deserialize)]
struct ListedVolumes {
    volumes: Vec<VolumeRights>,
}

/// The versions of a file, as a server lists them.
#[derive(Deserialize)]
struct KeptVersions {
    versions: Vec<KeptVersion>,
}

impl Address {
    /// Lists the old versions of the file at this address, newest first. Blocks: runs its own async runtime
    /// meanwhile.
    ///
    /// # Errors
    /// [`SyncError::Dial`] if the server is not reached or not trusted, [`SyncError::Refused`] if it refuses the
    /// token, [`SyncError::SelectionThere`] with the server's reason for another refusal, [`SyncError::Busy`] if it
    /// has no room now.
    pub fn versions(&self, credentials: &Credentials) -> Result<Vec<KeptVersion>, SyncError> {
        let answer = alone(self.ask(credentials, Method::GET, "as=versions"))?;
        let none = |error| failed("understand", &self.server())(io::Error::other(error));
        serde_json::from_slice(&answer).map(|KeptVersions { versions }| versions).map_err(none)
    }

    /// Lists the volumes of the server that the token is for. Blocks, as [`Address::versions`] does.
    ///
    /// # Errors
    /// Same as [`Address::versions`].
    pub fn volumes(&self, credentials: &Credentials) -> Result<Vec<VolumeRights>, SyncError> {
        let mut requests = Requests::new(self, credentials);
        let answer = alone(requests.ask(Method::GET, "/v1/volumes", Bytes::new()))?;
        let none = |error| failed("understand", &self.server())(io::Error::other(error));
        serde_json::from_slice(&answer).map(|ListedVolumes { volumes }| volumes).map_err(none)
    }

    /// Restores an old version of the file on the server.
    ///
    /// # Errors
    /// Same as [`Address::versions`].
    pub fn restore(&self, credentials: &Credentials, version: u64) -> Result<(), SyncError> {
        let query = format!("as=restore&version={version}");
        alone(self.ask(credentials, Method::POST, &query)).map(drop)
    }

    /// Downloads the file at this address, and passes its bytes to `take` as they arrive. Returns the error of `take`
    /// within `Ok`. Blocks as [`Address::versions`] does.
    ///
    /// # Errors
    /// Same as [`Address::versions`].
    pub fn download(
        &self,
        credentials: &Credentials,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, SyncError> {
        let file = self.file_path();
        alone(async {
            let mut requests = Requests::new(self, credentials);
            let begun = timeout(ANSWERS_WITHIN, requests.begin(Method::GET, &file, Bytes::new()));
            let silent = |_| Err(self.no_answer_error(ANSWERS_WITHIN));
            let (_sender, answer) = begun.await.unwrap_or_else(silent)?;
            if !answer.status().is_success() {
                return Err(requests.refused(Answer::read(answer, self).await?));
            }
            let failed =
                |error: hyper::Error| failed("ask", &self.server())(io::Error::other(error));
            let mut body = answer.into_body();
            loop {
                let frame = timeout(ANSWERS_WITHIN, body.frame()).await;
                let Some(frame) = frame.map_err(|_| self.no_answer_error(ANSWERS_WITHIN))? else {
                    return Ok(Ok(()));
                };
                if let Ok(bytes) = frame.map_err(failed)?.into_data()
                    && let Err(error) = take(&bytes)
                {
                    return Ok(Err(error));
                }
            }
        })
    }

    /// Returns the path of requests about the file.
    fn file_path(&self) -> String {
        self.request("files", &self.path)
    }

    /// Returns the path of requests about `path` in the volume. `kind` is `files` or `tree`.
    pub(super) fn request(&self, kind: &str, path: &[u8]) -> String {
        format!("/v1/volumes/{}/{kind}/{}", escape(self.volume.as_bytes()), escape(path))
    }

    /// Sends a request about the file, with the query `query`.
    async fn ask(
        &self,
        credentials: &Credentials,
        method: Method,
        query: &str,
    ) -> Result<Bytes, SyncError> {
        let path = format!("{}?{query}", self.file_path());
        Requests::new(self, credentials).ask(method, &path, Bytes::new()).await
    }
}

/// The answer to a request.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Time after which a retry may succeed.
    pub(super) wait: Option<Duration>,
    pub(super) body: Bytes,
}

impl Answer {
    /// Reads the whole body of an answer of the server at `to`.
    async fn read(answer: Response<Incoming>, to: &Address) -> Result<Self, SyncError> {
        let (status, wait) = (answer.status(), retry_after(answer.headers()));
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
        let failed = |error| failed("ask", &to.server())(io::Error::other(error));
        Ok(Self { status, wait, body: body.map_err(|error| failed(error.to_string()))?.to_bytes() })
    }
}

/// Sequential requests to a server. They share one connection as long as the connection lasts.
pub(super) struct Requests {
    to: Address,
    credentials: Credentials,
    open: Option<http1::SendRequest<Full<Bytes>>>,
}

impl Requests {
    pub(super) fn new(to: &Address, credentials: &Credentials) -> Self {
        Self { to: to.clone(), credentials: credentials.clone(), open: None }
    }

    /// Sends a request, and returns the body of the answer. Every status other than success is an error.
    pub(super) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, SyncError> {
        self.answer(method, path, body).await.map(|answer| answer.body)
    }

    /// Sends a request. Every status other than success is an error.
    pub(super) async fn answer(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Answer, SyncError> {
        let asked = timeout(ANSWERS_WITHIN, self.send(method, path, body)).await;
        let answer = asked.unwrap_or_else(|_| Err(self.to.no_answer_error(ANSWERS_WITHIN)))?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.refused(answer)) }
    }

    /// Returns the error for an answer with another status than success.
    fn refused(&self, Answer { status, wait, body }: Answer) -> SyncError {
        let server = self.to.server();
        if status == StatusCode::UNAUTHORIZED {
            return SyncError::Refused(format!("{server}: {NO_TOKEN}"));
        }
        match detail(&body) {
            Some(detail) => {
                let why = format!("{}: {detail}", self.to.host());
                match wait {
                    Some(wait) => SyncError::Busy { why, wait },
                    None => SyncError::SelectionThere(why),
                }
            }
            None => SyncError::Refused(format!(
                "{server}: there is no deltic server at this address (it answered {status})"
            )),
        }
    }

    /// Sends a request. After an error, the next request opens a new connection.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Answer, SyncError> {
        let (sender, answer) = self.begin(method, path, body).await?;
        let answer = Answer::read(answer, &self.to).await?;
        self.open = Some(sender);
        Ok(answer)
    }

    /// Sends a request. Returns the connection, and the answer with a body that is not yet read.
    async fn begin(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(http1::SendRequest<Full<Bytes>>, Response<Incoming>), SyncError> {
        let failed = |error| failed("ask", &self.to.server())(io::Error::other(error));
        let request = match method {
            // The server deletes no file without a condition.
            Method::DELETE => Request::builder().header(header::IF_MATCH, "*"),
            _ => Request::builder(),
        };
        let request = request
            .method(method)
            .uri(self.to.at(path))
            .header(header::HOST, &self.to.authority)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.credentials.token.reveal()))
            .body(Full::new(body))
            .map_err(|error| failed(error.to_string()))?;
        let mut sender = match self.open.take().filter(|open| !open.is_closed()) {
            Some(open) => open,
            None => {
                let stream = self.to.reach(&self.credentials).await?;
                let connected = http1::handshake(TokioIo::new(stream)).await;
                let (sender, connection) = connected.map_err(|error| failed(error.to_string()))?;
                tokio::spawn(connection);
                sender
            }
        };
        let answer = sender.send_request(request).await.map_err(|error| {
            match is_not_http(&error) && !self.to.is_secret {
                true => super::failed("ask", &self.to.server())(TlsFault::NotHttp.into()),
                false => failed(error.to_string()),
            }
        });
        Ok((sender, answer?))
    }
}

/// Runs a request to its end in a new runtime.
fn alone<T>(asking: impl Future<Output = Result<T, SyncError>>) -> Result<T, SyncError> {
    runtime()?.block_on(asking)
}

/// Returns a new runtime of this thread.
pub(super) fn runtime() -> Result<Runtime, SyncError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| SyncError::Transport { action: "start a runtime", source })
}
