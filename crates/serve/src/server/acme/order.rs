//! Orders a certificate: the authority validates each name at the server, and issues the certificate.

use std::time::Duration;

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::Acme;
use super::caller::Calls;
use super::kept::Certificate;

/// Growing pauses at which the authority is polled, and the longest time to poll.
const PATIENCE: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));

/// ACME problem type: the authority does not know our account, or has forgotten it.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

impl Acme {
    /// Orders a certificate for a new key.
    pub(super) async fn order(&self) -> Result<Certificate, String> {
        let account = self.account().await?;
        let names = self.settings.domains.iter().cloned().map(Identifier::Dns);
        let names: Vec<_> = names.collect();
        let mut order = match account.new_order(&NewOrder::new(&names)).await {
            Err(Error::Api(why)) if why.r#type.as_deref() == Some(NO_ACCOUNT) => {
                self.change(|kept| kept.account = None)?;
                let account = self.account().await?;
                account.new_order(&NewOrder::new(&names)).await
            }
            order => order,
        }
        .map_err(told)?;
        self.prove(&mut order).await?;
        let failed = |error: rcgen::Error| format!("cannot make a certificate request: {error}");
        let key = KeyPair::generate().map_err(failed)?;
        let domains = self.settings.domains.clone();
        let mut params = CertificateParams::new(domains.clone()).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(failed)?;
        order.finalize_csr(request.der()).await.map_err(told)?;
        let chain = order.poll_certificate(&PATIENCE).await.map_err(told)?;
        Ok(Certificate { domains, chain, key: key.serialize_pem() })
    }

    /// Returns our account, and creates an account if there is none.
    async fn account(&self) -> Result<Account, String> {
        let with = || Account::builder_with_http(Box::new(Calls(self.caller.clone())));
        let kept = crate::lock(&self.kept).account.clone();
        if let Some(kept) = kept {
            let kept: AccountCredentials = serde_json::from_value(kept)
                .map_err(|why| format!("{}: the account: {why}", self.path.display()))?;
            return with().from_credentials(kept).await.map_err(told);
        }
        let contact: Vec<_> = self.settings.contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let made = with().create(&new, self.settings.directory.clone(), None).await;
        let (account, made) = made.map_err(told)?;
        let made = serde_json::to_value(made).map_err(|why| why.to_string())?;
        self.change(|kept| kept.account = Some(made))?;
        Ok(account)
    }

    /// Proves to the authority that the server has all the names.
    async fn prove(&self, order: &mut Order) -> Result<(), String> {
        let (mut answers, mut names) = (Vec::new(), order.authorizations());
        while let Some(name) = names.next().await {
            let mut name = name.map_err(told)?;
            if name.status == AuthorizationStatus::Valid {
                continue;
            }
            let none = "the authority does not look for names by TLS (tls-alpn-01)";
            let mut challenge = name.challenge(ChallengeType::TlsAlpn01).ok_or(none)?;
            let named = challenge.identifier().to_string();
            let digest = challenge.key_authorization().digest();
            answers.push(self.shown.answer(&named, digest.as_ref())?);
            challenge.set_ready().await.map_err(told)?;
        }
        match order.poll_ready(&PATIENCE).await {
            Ok(OrderStatus::Ready) => Ok(()),
            Ok(_) => Err(validation_error(order).await),
            Err(why) => Err(told(why)),
        }
    }
}

/// Returns the authority's reason why a name could not be validated.
async fn validation_error(order: &mut Order) -> String {
    let mut names = order.authorizations();
    while let Some(Ok(mut name)) = names.next().await {
        let Ok(state) = name.refresh().await else { break };
        let found = state.challenges.iter().find_map(|challenge| challenge.error.clone());
        if let Some(problem) = found {
            return format!("{}: {}", state.identifier(), said(&problem));
        }
    }
    "the order was refused".into()
}

/// Error text for a failed request.
fn told(error: Error) -> String {
    match &error {
        Error::Api(problem) => said(problem),
        Error::Timeout(_) => "the authority did not finish in time".into(),
        Error::Json(why) => format!("invalid ACME answer: {why}"),
        error => error.to_string(),
    }
}

/// Error text for a problem that the authority reports.
fn said(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    let kind = kind.rsplit(':').next().unwrap_or_default();
    let detail = problem.detail.as_deref().unwrap_or("no details");
    let more: Vec<_> = problem.subproblems.iter().filter_map(|sub| sub.detail.as_deref()).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join("; ")) };
    let text = format!("refused as {kind}: {detail}{more}");
    // The text goes to terminals and logs.
    text.chars().filter(|letter| !letter.is_control()).take(1_000).collect()
}
