//! AWS Signature Version 4, in the `Authorization` header.

use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::credentials::AccessKeys;
use crate::http::escaped;
use crate::sums::hex;

/// SHA-256 of an empty body.
const NO_BODY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The parts of a request without a body that are signed.
pub(super) struct UnsignedRequest<'a> {
    pub(super) host: &'a str,
    /// Percent-encoded path.
    pub(super) path: &'a str,
    /// Names and values, not encoded, sorted by name.
    pub(super) query: &'a [(&'a str, String)],
    /// Additional headers: lowercase names, sorted.
    pub(super) headers: &'a [(&'a str, String)],
}

impl UnsignedRequest<'_> {
    /// The percent-encoded query.
    pub(super) fn query(&self) -> String {
        let pair = |(name, value): &(&str, String)| {
            format!("{}={}", escaped(name, false), escaped(value, false))
        };
        self.query.iter().map(pair).collect::<Vec<_>>().join("&")
    }

    /// The headers of the request, with a signature if there are keys.
    pub(super) fn signed(
        &self,
        method: &str,
        keys: Option<&AccessKeys>,
        region: &str,
        now: Timestamp,
    ) -> Vec<(String, String)> {
        let mut headers: Vec<_> =
            self.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let Some(keys) = keys else { return headers };
        let stamp = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = &stamp[..8];
        headers.push(("x-amz-content-sha256".into(), NO_BODY.into()));
        headers.push(("x-amz-date".into(), stamp.clone()));
        if let Some(token) = &keys.token {
            headers.push(("x-amz-security-token".into(), token.clone()));
        }
        let mut all = headers.clone();
        all.push(("host".into(), self.host.to_owned()));
        all.sort();
        let names = all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
        let lines: String =
            all.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let query = self.query();
        let request = format!("{method}\n{}\n{query}\n{lines}\n{names}\n{NO_BODY}", self.path);
        let scope = format!("{day}/{region}/s3/aws4_request");
        let sum = hex(&Sha256::digest(request.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{sum}");
        let first = format!("AWS4{}", keys.secret);
        let key = [day, region, "s3", "aws4_request"]
            .iter()
            .fold(first.into_bytes(), |key, part| mac(&key, part.as_bytes()));
        let signature = hex(&mac(&key, text.as_bytes()));
        headers.push((
            "authorization".into(),
            format!(
                "AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}",
                keys.id
            ),
        ));
        headers
    }
}

/// Builds a request with `headers`.
pub(super) fn request(
    method: &str,
    url: &str,
    headers: Vec<(String, String)>,
) -> Result<Request<()>, http::Error> {
    let request = Request::builder().method(method).uri(url);
    headers.into_iter().fold(request, |it, (name, value)| it.header(name, value)).body(())
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of "Signature Calculations for the Authorization Header" in the Amazon S3 manual.
    #[test]
    fn signatures_match_the_examples_of_the_manual() {
        let keys = AccessKeys {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        let now: Timestamp = "2013-05-24T00:00:00Z".parse().unwrap();
        let host = "examplebucket.s3.amazonaws.com";
        let range = [("range", "bytes=0-9".to_owned())];
        let list = [("max-keys", "2".to_owned()), ("prefix", "J".to_owned())];
        for (path, query, headers, signature) in [
            (
                "/test.txt",
                &[][..],
                &range[..],
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "/",
                &list[..],
                &[][..],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let to_sign = UnsignedRequest { host, path, query, headers };
            let signed = to_sign.signed("GET", Some(&keys), "us-east-1", now);
            let (_, header) = signed.last().unwrap();
            assert!(header.ends_with(signature), "{header}");
        }
    }
}
