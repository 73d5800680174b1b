//! The agent: it runs published resources between workspaces and the service cluster.
//!
//! | module | content |
//! |---|---|
//! | [`options`] | the validated options of the agent |
//! | [`startup`] | finds the endpoint slice and the export in kcp |
//! | [`publishing`] | the controller of published resources: schema, entry in the export, objects |
//! | `kinds` | the kinds that the agent publishes |
//! | [`schemas`] | creates the schema of a published resource in kcp |
//! | [`export`] | one task for each export: keeps schemas and claims in it |
//! | [`conditions`] | writes the condition Ready of published resources |
//! | [`control`] | events of slices, bindings, published resources and types |
//! | [`events`] | events on the objects of consumers |
//! | [`explain`] | explains the state of an object, on request |
//! | `explained` | what the agent would do about one object, and why |
//! | `trial` | passes with dry runs in place of writes |
//! | [`consumer`] | explains an object to its consumer, from what the workspace shows |
//! | [`adopt`] | objects in the places of copies, for a plan |
//! | [`binding_reader`] | reads whether a workspace is bound |
//! | [`approvals`] | held deletions: the condition and the approval by annotation |
//! | [`holds`] | held deletions of other replicas |
//! | [`retraction`] | the checks before anything is deleted |
//! | [`workspaces`], [`bindings`] | the bound workspaces, and the endpoint of each |
//! | `subject`, `feeds` | the subjects of passes, and feeds of the service cluster |
//! | [`publication`] | one running published resource |
//! | [`related`] | the claims, feeds and reverse index of related objects |
//! | [`dispatch`] | maps watch events to subjects in the queue |
//! | [`share`] | the workspaces that this replica works on |
//! | [`passes`] | the subject of a pass, and the notes after it |
//! | `drift` | fields of copies that other writers changed |
//! | [`observing`] | metrics that are polled |
//! | [`overview`] | what the page shows: kinds, workspaces, and objects that are out of sync |
//! | [`sweep`] | state Secrets whose object is gone |
//! | [`orphans`] | lists and removes copies of workspaces that have left, on request |
//! | [`pausing`] | the pauses that hold the writes of a pass |
//! | [`plan`] | the effect of changed published resources, and its summary |
//! | `planning` | keeps the plans of published resources with the mode `Plan` up to date |
//! | [`release`] | stops syncing objects and leaves their copies, on request |
//! | [`switch`] | whether a request about a published resource is still wanted |
//! | [`review`] | asks the servers which rights the agent lacks |
//! | [`router`] | the endpoints of the engine's requests |
//! | [`process`] | the whole process, from start to end |
//! | `work` | the tasks of a running agent, and how they end |

pub mod adopt;
pub mod approvals;
pub mod binding_reader;
pub mod bindings;
pub mod conditions;
pub mod consumer;
pub mod control;
pub mod dispatch;
mod drift;
pub mod events;
pub mod explain;
mod explained;
pub mod export;
mod feeds;
pub mod holds;
mod inactive;
mod kinds;
mod notices;
mod numbers;
pub mod observing;
pub mod options;
pub mod orphans;
mod overview;
pub mod passes;
mod pausing;
pub mod place;
pub mod plan;
mod planning;
pub mod process;
pub mod publication;
pub mod publishing;
pub mod related;
pub mod release;
pub mod retraction;
pub mod review;
pub mod router;
pub mod schemas;
pub mod share;
pub mod startup;
mod subject;
pub mod sweep;
pub mod switch;
mod synced;
mod trial;
mod work;
pub mod workspaces;

#[cfg(test)]
mod ground;
