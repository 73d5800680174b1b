//! The requests of a pass, and the meaning of answers.

use std::sync::Arc;

use serde_json::json;

use hawser_placement::names::WORK_FINALIZER;
use hawser_placement::types::work::{AppliedResource, AppliedWorkStatus, WorkStatus};
use hawser_runtime::cluster::wire::Application;
use hawser_sync::{Answer, Failure, Request, WriteConflict};
use kube_lang::object::Object;

use super::super::sides::MemberSides;
use super::{WorkPass, WorkPassError};

impl WorkPass<'_> {
    pub(super) async fn write_finalizer(
        &self,
        work: &Object,
        has: bool,
    ) -> Result<Arc<Object>, WorkPassError> {
        let others = work.finalizers().filter(|name| *name != WORK_FINALIZER);
        let finalizers: Vec<&str> = others.chain(has.then_some(WORK_FINALIZER)).collect();
        let patch = json!({"metadata": {
            "finalizers": finalizers, "resourceVersion": work.resource_version(), "uid": work.uid(),
        }});
        let key = self.at.sides.work(self.name);
        self.found(&Request::Patch { key, patch }).await
    }

    pub(super) async fn write_status(
        &self,
        work: Arc<Object>,
        status: &WorkStatus,
    ) -> Result<Arc<Object>, WorkPassError> {
        let mut object = Object::clone(&work);
        object.root_mut().insert("status".into(), json!(status));
        let key = self.at.sides.work(self.name);
        self.write_and_refresh(Request::ReplaceStatus { key, object })
            .await
    }

    /// Writes a status unless the Work has it.
    pub(super) async fn report_status(
        &self,
        work: Arc<Object>,
        known: &WorkStatus,
        status: &WorkStatus,
    ) -> Result<(), WorkPassError> {
        if status != known {
            self.write_status(work, status).await?;
        }
        Ok(())
    }

    pub(super) async fn write_applied(
        &self,
        applied_work: &Object,
        listed: &[AppliedResource],
    ) -> Result<Arc<Object>, WorkPassError> {
        let status = AppliedWorkStatus {
            applied_resources: listed.to_vec(),
        };
        let mut object = applied_work.clone();
        object.root_mut().insert("status".into(), json!(status));
        let key = MemberSides::applied_work(self.name);
        self.write_and_refresh(Request::ReplaceStatus { key, object })
            .await
    }

    /// Sends a write; after a conflict, the current object is put into the table for the next pass.
    async fn write_and_refresh(&self, request: Request) -> Result<Arc<Object>, WorkPassError> {
        let answer = self.send(&request).await?;
        if let (Answer::Failed(Failure::Conflict), Some(key)) = (&answer, request.key()) {
            self.send(&Request::Read { key: key.clone() }).await?;
        }
        Self::object(answer)
    }

    pub(super) async fn found(&self, request: &Request) -> Result<Arc<Object>, WorkPassError> {
        let answer = self.send(request).await?;
        Self::object(answer)
    }

    pub(super) fn object(answer: Answer) -> Result<Arc<Object>, WorkPassError> {
        match answer {
            Answer::Object(object) => Ok(object),
            Answer::Failed(failure) => Err(failure.into()),
            Answer::Gone => Err(Failure::NotFound.into()),
            Answer::Listed(_) => Err(WorkPassError(
                "the hub returned a list instead of an object".to_owned(),
            )),
        }
    }

    pub(super) fn check_wanted(&self) -> Result<(), String> {
        if self.at.phase() == self.phase {
            Ok(())
        } else {
            Err("the hub has changed the state that the member should have".to_owned())
        }
    }

    pub(super) async fn send(&self, request: &Request) -> Result<Answer, WorkPassError> {
        let is_wanted = || self.check_wanted();
        let sent = self
            .at
            .client
            .send(&*self.at.sides, None, &is_wanted, request)
            .await;
        match sent {
            Ok((answer, changes)) => {
                self.at.events.learned(self.name, &changes);
                Ok(answer)
            }
            Err(contest) => Ok(Answer::Failed(self.postpone(contest))),
        }
    }

    pub(super) async fn send_apply(
        &self,
        application: &Application<'_>,
    ) -> Result<Arc<Object>, Failure> {
        let is_wanted = || self.check_wanted();
        let sent = self
            .at
            .client
            .apply(&*self.at.sides, &is_wanted, application)
            .await;
        let (answer, changes) = sent.map_err(|contest| self.postpone(contest))?;
        self.at.events.learned(self.name, &changes);
        match answer {
            Answer::Object(object) => Ok(object),
            Answer::Failed(failure) => Err(failure),
            Answer::Gone | Answer::Listed(_) => Err(Failure::NotFound),
        }
    }

    fn postpone(&self, contest: WriteConflict) -> Failure {
        let mut postponed = self.postponed.lock();
        *postponed = postponed.into_iter().chain([contest.wait]).min();
        Failure::Contested(contest.place)
    }
}
