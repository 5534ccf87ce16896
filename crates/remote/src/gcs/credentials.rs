//! Credentials for Google Cloud Storage: a given access token, or a credentials file that is exchanged for tokens.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};

use crate::http::{HttpClient, escaped};
use crate::{Environment, RemoteError, lock};

/// OAuth scope of requested tokens.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_only";
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// A token is renewed this long before the expiry.
const MARGIN: Duration = Duration::from_secs(60);
const HOUR_SECS: u64 = 3600;

/// Credentials of requests.
#[derive(Debug)]
pub(super) enum GoogleCredentials {
    /// No credentials, for public buckets.
    Anonymous,
    /// An access token from the environment.
    Token(String),
    /// A credentials file, exchanged for tokens.
    File(Box<TokenSource>),
}

/// A credentials file and the last access token.
pub(super) struct TokenSource {
    file: Value,
    last: Mutex<Option<(String, Instant)>>,
}

impl std::fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Buyer")
    }
}

impl GoogleCredentials {
    /// Finds credentials in the environment, or in the file of `gcloud auth application-default login`.
    ///
    /// # Errors
    /// [`RemoteError::Address`] for a file that cannot be read or has an unsupported type.
    pub(super) fn find(env: &dyn Environment) -> Result<Self, RemoteError> {
        let var = |name: &str| env.var(name).filter(|value| !value.is_empty());
        let given = var("GOOGLE_OAUTH_ACCESS_TOKEN").or_else(|| var("CLOUDSDK_AUTH_ACCESS_TOKEN"));
        if let Some(token) = given {
            return Ok(Self::Token(token));
        }
        let text = match var("GOOGLE_APPLICATION_CREDENTIALS") {
            Some(path) => Some(env.read(&path).ok_or_else(|| {
                RemoteError::Address(format!("GOOGLE_APPLICATION_CREDENTIALS: cannot read {path}"))
            })?),
            None => var("HOME").and_then(|home| {
                env.read(&format!("{home}/.config/gcloud/application_default_credentials.json"))
            }),
        };
        let Some(text) = text else { return Ok(Self::Anonymous) };
        let file: Value = serde_json::from_str(&text)
            .map_err(|_| RemoteError::Address("the credentials file is not JSON; GOOGLE_APPLICATION_CREDENTIALS names another file".into()))?;
        let kind = file["type"].as_str().unwrap_or_default();
        if !matches!(kind, "service_account" | "authorized_user") {
            let why = format!("credentials of type '{kind}' are not supported");
            return Err(RemoteError::Address(format!(
                "{why}; set GOOGLE_OAUTH_ACCESS_TOKEN to the output of `gcloud auth print-access-token`"
            )));
        }
        Ok(Self::File(Box::new(TokenSource { file, last: Mutex::default() })))
    }

    /// The access token for a request, renewed shortly before the expiry. `None` without credentials.
    pub(super) fn token(&self, client: &HttpClient) -> Result<Option<String>, RemoteError> {
        match self {
            Self::Anonymous => Ok(None),
            Self::Token(token) => Ok(Some(token.clone())),
            Self::File(buyer) => buyer.token(client).map(Some),
        }
    }
}

impl TokenSource {
    fn token(&self, client: &HttpClient) -> Result<String, RemoteError> {
        let mut last = lock(&self.last);
        if let Some((token, until)) = last.as_ref().filter(|(_, until)| *until > Instant::now()) {
            let _ = until;
            return Ok(token.clone());
        }
        let url = self.file["token_uri"].as_str().unwrap_or(TOKEN_URL);
        let answer = client.post_form(url, &self.form(url)?)?;
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let Some(token) = told["access_token"].as_str().filter(|_| answer.status.is_success())
        else {
            let why = told["error_description"].as_str().or_else(|| told["error"].as_str());
            let why = format!("{} {}", answer.status, why.unwrap_or_default());
            return Err(RemoteError::Refused { server: url.to_owned(), why });
        };
        let secs = told["expires_in"].as_u64().unwrap_or(HOUR_SECS).min(HOUR_SECS);
        let until = Instant::now() + Duration::from_secs(secs).saturating_sub(MARGIN);
        *last = Some((token.to_owned(), until));
        Ok(token.to_owned())
    }

    fn form(&self, url: &str) -> Result<String, RemoteError> {
        let lacks = |name: &str| {
            RemoteError::Address(format!(
                "the credentials file has no {name}; `gcloud auth application-default login` writes a new file"
            ))
        };
        let field = |name: &str| self.file[name].as_str().ok_or_else(|| lacks(name));
        if self.file["type"] == "authorized_user" {
            let pair = |name: &str| Ok(format!("&{name}={}", escaped(field(name)?, false)));
            let pairs = ["client_id", "client_secret", "refresh_token"].map(pair);
            let pairs: Vec<String> = pairs.into_iter().collect::<Result<_, RemoteError>>()?;
            return Ok(format!("grant_type=refresh_token{}", pairs.concat()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims = json!({
            "iss": field("client_email")?, "scope": SCOPE, "aud": url, "iat": now,
            "exp": now + HOUR_SECS,
        });
        let head = json!({"alg": "RS256", "typ": "JWT"});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&head), part(&claims));
        let signature = signed(&text, field("private_key")?)?;
        let grant = escaped("urn:ietf:params:oauth:grant-type:jwt-bearer", false);
        Ok(format!("grant_type={grant}&assertion={text}.{signature}"))
    }
}

/// The RS256 signature of `text` by a PEM private key, in URL-safe base 64.
fn signed(text: &str, pem: &str) -> Result<String, RemoteError> {
    let bad = || {
        RemoteError::Address(
            "the private key of the credentials is not an RSA key in PKCS #8; create a new key for the service account".into(),
        )
    };
    let inner: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(inner.trim()).map_err(|_| bad())?;
    let key = RsaKeyPair::from_pkcs8(&der).map_err(|_| bad())?;
    let mut signature = vec![0; key.public().modulus_len()];
    let sign = key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
    sign.map_err(|_| bad())?;
    Ok(URL_SAFE_NO_PAD.encode(signature))
}
