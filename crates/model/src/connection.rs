//! How a provider is reached, and why it is not: proxies, the system's certificates, the failures of both.

use std::error::Error;
use std::io;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use hames_protocol::{FailureKind, ModelFailure};
use reqwest::header::HeaderMap;
use reqwest::{Client, Url, redirect};
use rustls::CertificateError;
use tokio::sync::oneshot;

use crate::failure::failure;
use crate::proxy::{Proxies, Proxy};

/// How long a connection may take to come up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// The way to one provider.
pub(crate) struct Connection {
    /// Host and port, as failures name them.
    pub(crate) host: String,
    proxy: Option<Proxy>,
    client: Shared<oneshot::Receiver<Result<Client, String>>>,
}

impl Connection {
    /// Prepares the way to `url`; nothing is sent. Must not wait: for TLS the system's certificates are read meanwhile,
    /// which takes as long as the rest of a start.
    ///
    /// # Errors
    /// When the environment names a proxy that is none.
    pub(crate) fn to(url: &Url, headers: HeaderMap, proxies: &Proxies) -> Result<Self, ModelFailure> {
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let proxy = if is_loopback(url) { None } else { proxies.of(url)? };
        let (sender, receiver) = oneshot::channel();
        let way = proxy.clone();
        let tls = match url.scheme() == "https" || proxy.as_ref().is_some_and(Proxy::uses_tls) {
            true => Tls::Used,
            false => Tls::Unused,
        };
        let build = move || {
            // Nobody receives it when the run was over first.
            let _ = sender.send(build(tls, headers, way.as_ref()).map_err(|problem| causes(&problem)));
        };
        match tls {
            Tls::Unused => build(),
            // Where no thread can be had, whoever waits for the client is told.
            Tls::Used => drop(std::thread::Builder::new().name("roots".to_owned()).spawn(build)),
        }
        Ok(Self { host, proxy, client: receiver.shared() })
    }

    /// The client, as soon as it is ready.
    ///
    /// # Errors
    /// When it cannot start, as where there are no certificates.
    pub(crate) async fn client(&self) -> Result<Client, ModelFailure> {
        let built = self.client.clone().await.unwrap_or_else(|_| Err("its thread has stopped".to_owned()));
        built.map_err(|cause| {
            let remedy = match cause.contains("No CA certificates") {
                true => {
                    " Install the system's root certificates (on Debian: apt-get install ca-certificates), or name a \
                     file of them in SSL_CERT_FILE; one that is named must be there."
                }
                false => "",
            };
            failure(FailureKind::Setup, format!("The HTTP client cannot start: {cause}.{remedy}"))
        })
    }

    /// What no text may show.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.proxy.as_ref().map(Proxy::secrets).unwrap_or_default()
    }

    /// The failure behind a request that got no answer.
    pub(crate) fn failed(&self, problem: reqwest::Error) -> ModelFailure {
        let (is_builder, is_connect) = (problem.is_builder(), problem.is_connect());
        let problem = problem.without_url();
        let (host, cause) = (&self.host, causes(&problem));
        if is_builder {
            return failure(FailureKind::Setup, format!("The request to {host} cannot be made: {cause}."));
        }
        if let Some(problem) = certificate_problem(&problem) {
            return failure(FailureKind::Setup, self.untrusted(problem, &cause));
        }
        match &self.proxy {
            // Only the words of this error can be told apart.
            Some(proxy) if is_connect && cause.contains("proxy authorization required") => self.unauthorized(proxy),
            Some(proxy) if is_connect => {
                let text = format!(
                    "Cannot connect to {host} through the proxy {proxy}: {cause}. Check the proxy, or name the host in \
                     NO_PROXY to go without it."
                );
                failure(FailureKind::Transient, text)
            }
            None if is_connect => failure(FailureKind::Transient, format!("Cannot connect to {host}: {cause}.")),
            _ => failure(FailureKind::Transient, format!("Lost the connection to {host}: {cause}.")),
        }
    }

    /// The failure behind HTTP 407, where a proxy is used.
    pub(crate) fn refused_by_proxy(&self) -> Option<ModelFailure> {
        self.proxy.as_ref().map(|proxy| self.unauthorized(proxy))
    }

    fn unauthorized(&self, proxy: &Proxy) -> ModelFailure {
        let text = format!(
            "The proxy {proxy} lets nobody through to {} without credentials that it accepts. Put them into its URL, like \
             http://NAME:PASSWORD@proxy.example.com:8080.",
            self.host
        );
        failure(FailureKind::Setup, text)
    }

    fn untrusted(&self, problem: &CertificateError, cause: &str) -> String {
        let host = &self.host;
        match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!(
                    "The certificate of {host} has expired ({cause}). Check this machine's clock, or have it renewed."
                )
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "The certificate of {host} is for another name ({cause}). Check the base URL (ANTHROPIC_BASE_URL)."
                )
            }
            _ => format!(
                "The certificate of {host} is not trusted ({cause}). If a proxy or a gateway of yours has issued it, add \
                 its root certificate to the system's, or name a file that holds it in SSL_CERT_FILE."
            ),
        }
    }
}

/// Whether a provider, or the proxy before it, is reached over TLS.
#[derive(Clone, Copy)]
enum Tls {
    Used,
    Unused,
}

fn build(tls: Tls, headers: HeaderMap, proxy: Option<&Proxy>) -> reqwest::Result<Client> {
    // An error says that another part of the process has installed a provider already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .default_headers(headers)
        .connect_timeout(CONNECT_TIMEOUT)
        // A redirect would carry the key to a host that nobody named.
        .redirect(redirect::Policy::none())
        // The library would read the environment itself.
        .no_proxy();
    if let Some(proxy) = proxy {
        builder = builder.proxy(proxy.for_client()?);
    }
    if let Tls::Unused = tls {
        // Reading the system's certificates takes time and fails where there are none; plain HTTP needs none.
        builder = builder.tls_certs_only([]);
    }
    builder.build()
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What is wrong with a certificate, wherever in the chain of causes that stands.
fn certificate_problem<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CertificateError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(problem)) = error.downcast_ref() {
            return Some(problem);
        }
        // The source of an I/O error is not the error that it wraps, but what lies beneath that.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

/// An error with everything beneath it, on one line.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text.trim_end_matches('.').to_owned()
}
