//! Credentials, region and endpoint of S3, from the environment and the files of the AWS tools.

use crate::{Environment, RemoteError};

/// Access keys of an account.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AccessKeys {
    pub(super) id: String,
    pub(super) secret: String,
    /// Session token of temporary keys.
    pub(super) token: Option<String>,
}

impl std::fmt::Debug for AccessKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({})", self.id)
    }
}

/// Account and server settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct S3Account {
    /// `None` sends unsigned requests, for public buckets.
    pub(super) keys: Option<AccessKeys>,
    pub(super) region: String,
    /// URL of a server other than Amazon's.
    pub(super) endpoint: Option<String>,
}

impl S3Account {
    /// Finds the settings: environment variables first, then the profile.
    ///
    /// # Errors
    /// [`RemoteError::Address`] for a named profile without keys, or one key without the other.
    pub(super) fn find(env: &dyn Environment) -> Result<Self, RemoteError> {
        let var = |name: &str| env.var(name).filter(|value| !value.is_empty());
        let named = var("AWS_PROFILE").or_else(|| var("AWS_DEFAULT_PROFILE"));
        let profile = named.as_deref().unwrap_or("default");
        let file = |name: &str, home: &str| {
            let path = var(name).or_else(|| Some(format!("{}/{home}", var("HOME")?)))?;
            env.read(&path)
        };
        let secrets = file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
        let config = file("AWS_CONFIG_FILE", ".aws/config");
        let kept = |name: &str| {
            let in_config = match profile {
                "default" => "default".to_owned(),
                other => format!("profile {other}"),
            };
            let found = secrets.as_deref().and_then(|text| value(text, profile, name));
            found.or_else(|| value(config.as_deref()?, &in_config, name))
        };
        let keys = match (var("AWS_ACCESS_KEY_ID"), var("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => {
                Some(AccessKeys { id, secret, token: var("AWS_SESSION_TOKEN") })
            }
            (None, None) => match (kept("aws_access_key_id"), kept("aws_secret_access_key")) {
                (Some(id), Some(secret)) => {
                    Some(AccessKeys { id, secret, token: kept("aws_session_token") })
                }
                _ => None,
            },
            (Some(_), None) => {
                return Err(half("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"));
            }
            (None, Some(_)) => {
                return Err(half("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"));
            }
        };
        if let (Some(name), None) = (&named, &keys) {
            return Err(RemoteError::Address(format!(
                "no keys in the profile {name}: AWS_PROFILE names one of ~/.aws/credentials"
            )));
        }
        let region = var("AWS_REGION").or_else(|| var("AWS_DEFAULT_REGION"));
        let region = region.or_else(|| kept("region")).unwrap_or_else(|| "us-east-1".into());
        let endpoint = var("AWS_ENDPOINT_URL_S3").or_else(|| var("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.or_else(|| kept("endpoint_url"));
        Ok(Self { keys, region, endpoint })
    }
}

fn half(has: &str, lacks: &str) -> RemoteError {
    RemoteError::Address(format!("{has} is set without {lacks}; set both, or neither"))
}

/// The value of `name` in a section of an INI file.
fn value(text: &str, section: &str, name: &str) -> Option<String> {
    let mut is_in = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_in = head.trim() == section;
        } else if is_in
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == name
        {
            return Some(value.trim().to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestEnvironment;

    #[test]
    fn the_environment_overrides_the_profile_and_a_key_without_its_secret_is_refused() {
        let files = TestEnvironment::of(&[("HOME", "/home/me")]).file(
            "/home/me/.aws/credentials",
            "[default]\naws_access_key_id = A\naws_secret_access_key = B\n[work]\n\
             aws_access_key_id=C\naws_secret_access_key=D\nregion=eu-west-1\n",
        );
        let account = S3Account::find(&files).unwrap();
        assert_eq!(account.keys.unwrap().id, "A");
        assert_eq!(account.region, "us-east-1");
        let work = files.clone().with("AWS_PROFILE", "work");
        let account = S3Account::find(&work).unwrap();
        assert_eq!((account.keys.unwrap().id, account.region), ("C".into(), "eu-west-1".into()));
        let other = work.clone().with("AWS_ACCESS_KEY_ID", "E").with("AWS_SECRET_ACCESS_KEY", "F");
        assert_eq!(S3Account::find(&other).unwrap().keys.unwrap().id, "E");
        let half = S3Account::find(&work.with("AWS_ACCESS_KEY_ID", "E")).unwrap_err();
        assert!(half.to_string().contains("without AWS_SECRET_ACCESS_KEY"), "{half}");
        let lost = S3Account::find(&files.with("AWS_PROFILE", "lost")).unwrap_err();
        assert!(lost.to_string().contains("the profile lost"), "{lost}");
        assert_eq!(S3Account::find(&TestEnvironment::default()).unwrap().keys, None);
    }
}
