//! Passwords in URLs. A password on the command line is refused, and no password is shown.

use std::borrow::Cow;

use anyhow::{Result, ensure};

use super::refused::Misused;

/// Refuses an argument that starts as a URL with a password: all users of this machine see arguments.
pub(crate) fn refuse(word: &str) -> Result<()> {
    let has_password = word.split_once("://").is_some_and(|(scheme, rest)| {
        let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        scheme.bytes().all(is_scheme) && user_of(rest).is_some_and(|user| user.contains(':'))
    });
    let shown = without_passwords(word);
    let why = "all users of this machine see the password; remove the password";
    ensure!(!has_password, Misused(format!("'{shown}': {why}")));
    Ok(())
}

/// Replaces each password in a URL of `text` by `***`, and each user of an `http` URL, since the user may be a token.
pub(crate) fn without_passwords(text: &str) -> Cow<'_, str> {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(MARK) {
        let (before, behind) = rest.split_at(at + MARK.len());
        shown.push_str(before);
        let user = user_of(behind).unwrap_or_default();
        let is_http = before.ends_with("http://") || before.ends_with("https://");
        match user.split_once(':') {
            Some((name, _)) => shown.extend([name, ":***"]),
            None if is_http && !user.is_empty() => shown.push_str("***"),
            None => shown.push_str(user),
        }
        rest = &behind[user.len()..];
    }
    if shown.is_empty() { text.into() } else { (shown + rest).into() }
}

/// Returns the `user` or `user:password` in front of a host.
fn user_of(behind: &str) -> Option<&str> {
    let ends = |c: char| c == '/' || c == '"' || c == '\'' || c.is_whitespace();
    let authority = &behind[..behind.find(ends).unwrap_or(behind.len())];
    authority.rsplit_once('@').map(|(user, _)| user)
}

const MARK: &str = "://";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_not_shown() {
        for (text, shown) in [
            ("no URL: a@b", "no URL: a@b"),
            ("https://h/v/a@b and ssh://me@h/", "https://h/v/a@b and ssh://me@h/"),
            ("'https://me:secret@h/v/': bad", "'https://me:***@h/v/': bad"),
            ("http://secret@h:80", "http://***@h:80"),
            ("s3://a:sec@ret@b \"ftp://:secret@c\"", "s3://a:***@b \"ftp://:***@c\""),
            ("https://h:8420/v/ x@y", "https://h:8420/v/ x@y"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
        assert!(refuse("https://me:secret@h/v").is_err() && refuse("ssh://me@h/v").is_ok());
        assert!(refuse("./a://b:c@d").is_ok(), "a path here");
    }
}
