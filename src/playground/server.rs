//! The playground's front: TLS and HTTP, who is asking, faults, the request log, kubeconfigs.

mod auth;
mod faults;
mod kubeconfig;
mod request_info;
mod request_log;
mod serve;
mod tls;

pub use auth::{Identity, TokenFileError, Tokens};
pub use faults::{Action, Fault, FaultError, Faults, Matcher, When};
pub use request_info::RequestInfo;
pub use request_log::{LoggedRequest, RequestLog};
pub use tls::TlsError;
