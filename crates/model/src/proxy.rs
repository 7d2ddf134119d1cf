//! Which proxy a provider is reached through, by the variables that other programs heed as well.
//!
//! They are read here and not by the HTTP library, which takes a value that it does not understand for none: a request
//! would then leave on a way that its user has closed.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hames_protocol::{FailureKind, ModelFailure};
use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use percent_encoding::percent_decode_str;
use reqwest::Url;

use crate::failure::failure;

/// Ways for a proxy to be spoken to.
const SCHEMES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

/// The proxies that a user's environment names; none by default.
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Named>,
    https: Option<Named>,
    all: Option<Named>,
    exempt: String,
}

/// What a variable says.
#[derive(Clone)]
struct Named {
    variable: &'static str,
    value: String,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may hold credentials.
        f.debug_struct("Proxies").finish_non_exhaustive()
    }
}

impl Proxies {
    /// Reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, or their lower-case forms where those are not set.
    pub fn from_variables(value: impl Fn(&str) -> Option<String>) -> Self {
        let first = |variables: [&'static str; 2]| {
            let named = variables.into_iter().filter_map(|variable| Some(Named { variable, value: value(variable)? }));
            named
                .map(|named| Named { value: named.value.trim().to_owned(), ..named })
                .find(|named| !named.value.is_empty())
        };
        Self {
            http: first(["HTTP_PROXY", "http_proxy"]),
            https: first(["HTTPS_PROXY", "https_proxy"]),
            all: first(["ALL_PROXY", "all_proxy"]),
            exempt: first(["NO_PROXY", "no_proxy"]).map(|named| named.value).unwrap_or_default(),
        }
    }

    /// The proxy that requests to `url` go through; none when they go there directly.
    ///
    /// # Errors
    /// When the variable that counts names no proxy.
    pub(crate) fn of(&self, url: &Url) -> Result<Option<Proxy>, ModelFailure> {
        let own = if url.scheme() == "https" { &self.https } else { &self.http };
        let named = own.as_ref().or(self.all.as_ref()).filter(|_| !self.exempts(url));
        named.map(Proxy::read).transpose()
    }

    /// Whether `NO_PROXY` names the host of `url`.
    fn exempts(&self, url: &Url) -> bool {
        let Ok(uri) = url.as_str().parse::<Uri>() else { return false };
        // With a proxy for everything, whoever is not sent through it is exempt.
        let hosts = exempt_hosts(&self.exempt, url);
        let matcher = Matcher::builder().all("http://proxy").no(hosts.as_str()).build();
        // The library lets the star stand for every name, not for every address.
        hosts.split(',').any(|host| host == "*") || matcher.intercept(&uri).is_none()
    }
}

/// A proxy.
#[derive(Clone)]
pub(crate) struct Proxy {
    variable: &'static str,
    url: Url,
}

impl fmt::Display for Proxy {
    /// Host, port and variable; never the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "{}{port} ({})", self.url.host_str().unwrap_or_default(), self.variable)
    }
}

impl Proxy {
    fn read(named: &Named) -> Result<Self, ModelFailure> {
        let variable = named.variable;
        let invalid = |why: &str| {
            let text =
                format!("The proxy in {variable} cannot be used: {why}. Write it like http://proxy.example.com:8080.");
            failure(FailureKind::Setup, text)
        };
        let text = &named.value;
        // Without a scheme a port would be taken for a path, and the host for a scheme.
        let url = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
        let url = url.map_err(|problem| invalid(&problem.to_string()))?;
        if !SCHEMES.contains(&url.scheme()) {
            return Err(invalid(&format!("`{}` is no kind of proxy ({})", url.scheme(), SCHEMES.join(", "))));
        }
        Ok(Self { variable, url })
    }

    /// Whether the proxy itself is reached over TLS.
    pub(crate) fn uses_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The same for the HTTP library.
    pub(crate) fn for_client(&self) -> reqwest::Result<reqwest::Proxy> {
        reqwest::Proxy::all(self.url.clone())
    }

    /// What no text may show: the password, and the header that carries it.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let Some(password) = self.url.password() else { return Vec::new() };
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pair = format!("{}:{}", plain(self.url.username()), plain(password));
        vec![password.to_owned(), plain(password), STANDARD.encode(pair)]
    }
}

/// `NO_PROXY` in the form that the HTTP library reads: hosts and networks. Other programs also read a port after a host,
/// and `*.` before a domain.
fn exempt_hosts(list: &str, target: &Url) -> String {
    let entry = |entry: &str| {
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (entry, None),
        };
        let applies = port.is_none_or(|port| port.parse().ok() == target.port_or_known_default());
        let host = host.trim_matches(['[', ']']);
        applies.then(|| host.strip_prefix("*.").unwrap_or(host).to_owned())
    };
    list.split([',', ' ']).filter(|entry| !entry.is_empty()).filter_map(entry).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Proxies::from_variables(value)
    }

    fn told(variables: &[(&str, &str)], url: &str) -> String {
        match proxies(variables).of(&Url::parse(url).unwrap()) {
            Ok(Some(proxy)) => proxy.to_string(),
            Ok(None) => "none".to_owned(),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn the_variable_of_the_scheme_counts_before_that_for_all() {
        let all = [("https_proxy", "one:1"), ("HTTP_PROXY", " http://two "), ("ALL_PROXY", "socks5h://three:3")];
        assert_eq!(told(&all, "https://x.test"), "one:1 (https_proxy)");
        assert_eq!(told(&all, "http://x.test"), "two:80 (HTTP_PROXY)");
        assert_eq!(told(&all[2..], "https://x.test"), "three:3 (ALL_PROXY)");
        assert_eq!(told(&all[1..2], "https://x.test"), "none");
        assert_eq!(told(&[("HTTPS_PROXY", " "), ("https_proxy", "b:2")], "https://x.test"), "b:2 (https_proxy)");
    }

    #[test]
    fn what_names_no_proxy_is_told_without_its_credentials() {
        for value in ["ftp://me:canary@host", "http://me:canary@", "http://me:canary@host:port"] {
            let text = told(&[("HTTPS_PROXY", value)], "https://x.test");
            assert!(text.contains("HTTPS_PROXY") && text.contains("http://proxy.example.com:8080"), "{text}");
            assert!(!text.contains("canary"), "{text}");
        }
        let secret = proxies(&[("HTTPS_PROXY", "http://me:p%40ss@host")]).of(&Url::parse("https://x.test").unwrap());
        assert_eq!(secret.unwrap().unwrap().secrets(), ["p%40ss", "p@ss", "bWU6cEBzcw=="]);
    }

    #[test]
    fn exempt_hosts_may_have_ports_and_stars() {
        let url = Url::parse("https://api.test").unwrap();
        for (list, direct) in [("x.test,.test", true), ("*.test:443", true), ("api.test:80", false), ("pi.test", false)]
        {
            let found = told(&[("ALL_PROXY", "p:1"), ("no_proxy", list)], "https://api.test");
            assert_eq!(found == "none", direct, "{list}: {found}");
        }
        for (list, read) in [
            ("a.test, .b.test *.c.test", "a.test,.b.test,c.test"),
            ("api.test:443,api.test:80", "api.test"),
            ("::1,[::1]:443,10.0.0.0/8", "::1,::1,10.0.0.0/8"),
            ("*", "*"),
        ] {
            assert_eq!(exempt_hosts(list, &url), read, "{list}");
        }
    }
}
