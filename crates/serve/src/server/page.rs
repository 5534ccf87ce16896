//! The page for browsers: the files of `web/dist`, as they were when this program was built.
//!
//! The files are the same for every client. They need no token, and reveal nothing about the server or its volumes.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use super::rest::names_tag;
use super::shared::check_origin;

/// A file of the page.
struct PageFile {
    /// Path below `web/dist`.
    name: &'static str,
    bytes: &'static [u8],
    /// The same content, compressed with brotli.
    brotli: Option<&'static [u8]>,
}

/// All files of the page; empty in a build without the page.
static FILES: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// HTML document of a build without the page.
const NO_PAGE: &str = include_str!("page/none.html");
/// First components of addresses that are not of the page.
const OTHER_ADDRESSES: [&str; 4] = ["v1", "healthz", "metrics", ".well-known"];
/// Folder of files whose names contain a hash of their content.
const HASHED: &str = "assets/";
/// Element of the HTML document that [`base`] replaces for each address.
const BASE: &str = r#"<base href="/">"#;

/// Headers of all answers of the page. The content security policy allows scripts and styles of this server alone, and
/// no markup from strings. Only the Trusted Types policy `deltic` may make URLs of workers.
const HEADERS: [(header::HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' blob:; \
         media-src 'self' blob:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; \
         base-uri 'self'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types deltic",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::VARY, "Accept-Encoding"),
];

/// Answers a request for an address that no other handler has: with a file of the page, or with the document.
pub(super) async fn answer(
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let first = uri.path().split('/').nth(1).unwrap_or_default();
    // Links of the page to `//host/` would lead to another server.
    if OTHER_ADDRESSES.contains(&first) || uri.path().starts_with("//") {
        return Err(Problem::new(StatusCode::NOT_FOUND, "no such address"));
    }
    if !matches!(method, Method::GET | Method::HEAD) {
        let allow = [(header::ALLOW, "GET, HEAD")];
        return Ok((StatusCode::METHOD_NOT_ALLOWED, allow).into_response());
    }
    check_origin(&headers)?;
    Ok(content(uri.path(), &headers).answer(&headers))
}

/// Returns the content for an address: a file of the page, or else the HTML document.
fn content(path: &str, headers: &HeaderMap) -> Content {
    let found = |name: &str| FILES.iter().find(|file| file.name == name);
    match found(path.trim_start_matches('/')).filter(|file| file.name != "index.html") {
        Some(file) => file.content(headers),
        None => {
            let document = found("index.html").map(|file| String::from_utf8_lossy(file.bytes));
            let text = document.as_deref().unwrap_or(NO_PAGE).replace(BASE, &base(path));
            let media_type = "text/html; charset=utf-8";
            Content { bytes: text.into(), coding: None, media_type, caching: "no-cache" }
        }
    }
}

/// Returns the `<base>` element that names the root of the page, relative to the address `path`: a proxy may serve the
/// page below a path of its own.
fn base(path: &str) -> String {
    let depth = path.matches('/').count().saturating_sub(1);
    let way = if depth == 0 { "./".into() } else { "../".repeat(depth) };
    format!(r#"<base href="{way}">"#)
}

/// Returns the media type of a file by the ending of its name.
fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "js" => "text/javascript",
        "css" => "text/css",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

/// Content to send, with its headers.
struct Content {
    bytes: Bytes,
    /// `Content-Encoding`, unless the bytes are the file as it is.
    coding: Option<&'static str>,
    media_type: &'static str,
    /// `Cache-Control`.
    caching: &'static str,
}

impl PageFile {
    /// Returns the content in the form that the client accepts.
    fn content(&self, headers: &HeaderMap) -> Content {
        let is_hashed = self.name.starts_with(HASHED);
        let caching = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
        let brotli = self.brotli.filter(|_| accepts_brotli(headers));
        Content {
            bytes: Bytes::from_static(brotli.unwrap_or(self.bytes)),
            coding: brotli.map(|_| "br"),
            media_type: media_type(self.name),
            caching,
        }
    }
}

/// True if the client accepts content that is compressed with brotli.
fn accepts_brotli(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let words = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut words = words.map(|word| word.split_once(';').unwrap_or((word, "")));
    words.any(|(coding, weight)| {
        let weight = weight.trim().strip_prefix("q=").map(str::parse::<f32>);
        coding.trim().eq_ignore_ascii_case("br") && weight.is_none_or(|q| q.is_ok_and(|q| q > 0.0))
    })
}

impl Content {
    /// Makes the answer; 304 if the client has the content (`If-None-Match`).
    fn answer(self, asked: &HeaderMap) -> Response {
        let tag = format!("\"{:.32}\"", blake3::hash(&self.bytes).to_hex());
        let mut response = if names_tag(asked, &header::IF_NONE_MATCH, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            Response::new(Body::from(self.bytes))
        };
        let set = [(header::CONTENT_TYPE, self.media_type), (header::CACHE_CONTROL, self.caching)];
        let coding = self.coding.map(|coding| (header::CONTENT_ENCODING, coding));
        let all = HEADERS.into_iter().chain(set).chain(coding);
        let all = all.map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(all);
        let tag = HeaderValue::from_str(&tag).expect("hex digits");
        response.headers_mut().insert(header::ETAG, tag);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_the_root_has_a_step_for_each_folder_of_the_address() {
        for (path, way) in [
            ("/", "./"),
            ("/photos", "./"),
            ("/photos/", "../"),
            ("/photos/2026/june", "../../"),
            ("/-/photos/a%2Fb/", "../../../"),
        ] {
            assert_eq!(base(path), format!("<base href=\"{way}\">"), "{path}");
        }
    }

    #[test]
    fn brotli_is_sent_to_clients_that_accept_brotli() {
        for (value, wanted) in [
            ("gzip, deflate, br, zstd", true),
            ("gzip;q=1.0, BR;q=0.5", true),
            ("br;q=0", false),
            ("br;q=x", false),
            ("gzip", false),
            ("brotli", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_brotli(&headers), wanted, "{value}");
        }
        assert!(!accepts_brotli(&HeaderMap::new()));
    }

    #[test]
    fn the_document_has_the_element_that_the_server_fills_in() {
        let index = FILES.iter().find(|file| file.name == "index.html");
        for text in [Some(NO_PAGE.as_bytes()), index.map(|file| file.bytes)].into_iter().flatten() {
            assert!(String::from_utf8_lossy(text).contains(BASE));
        }
    }
}
