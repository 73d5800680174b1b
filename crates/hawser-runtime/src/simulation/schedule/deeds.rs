//! What people and other programs do to objects.

use serde_json::json;

use super::super::checker;
use super::super::dialect::{CLUSTER, FOREIGN, NAME, SUBJECTS};
use super::Simulation;

impl Simulation {
    /// Begins with things that are in sync.
    pub(super) fn prepare(&mut self) -> Result<(), String> {
        self.calm = true;
        for (number, id) in SUBJECTS.iter().enumerate() {
            let secret = json!({"data": {"k": "0"}});
            if self.dice.percent(80) {
                self.world
                    .put(&id.0.thing, &json!({"spec": {"f0": number}}));
            }
            for original in [&id.0.credentials.0, &id.0.settings.0] {
                if self.dice.percent(50) {
                    self.world.put(original, &secret);
                }
            }
        }
        self.note(|| "things are in sync".to_owned());
        if !self.is_alone {
            self.start();
        }
        self.rest()?;
        self.calm = false;
        checker::at_rest(self)
    }

    pub(super) fn deed(&mut self) {
        let number = self.dice.below(SUBJECTS.len());
        let id = &SUBJECTS[number];
        let keys = &id.0;
        let (value, field) = (self.dice.below(4), format!("f{}", self.dice.below(3)));
        let what = self
            .dice
            .weighted(&[12, 12, 5, 5, 5, 4, 5, 4, 3, 3, 8, 6, 6, 1, 2, 2, 2, 2, 2, 3]);
        let world = &mut self.world;
        let secret = json!({"data": {"k": value.to_string()}});
        let name = match what {
            0 => {
                world.put(&keys.thing, &json!({"spec": {"f0": value}}));
                "creates the thing"
            }
            1 => {
                world.patch(&keys.thing, json!({"spec": {field: {"v": value}}}));
                "sets a field"
            }
            2 => {
                world.patch(&keys.thing, json!({"spec": {field: null}}));
                "removes a field"
            }
            3 => {
                let label = (value > 0).then(|| value.to_string());
                world.patch(
                    &keys.thing,
                    json!({"metadata": {"labels": {"mine": label}}}),
                );
                "labels the thing"
            }
            4 => {
                world.delete(&keys.thing);
                "deletes the thing"
            }
            5 => {
                world.delete(&keys.thing);
                world.put(&keys.thing, &json!({"spec": {"f1": value}}));
                "recreates the thing"
            }
            6 => {
                world.patch(&keys.copy, json!({"spec": {"local": value}}));
                "sets a field of the copy"
            }
            7 => {
                let labels = json!({"x/own": value.to_string()});
                world.patch(&keys.copy, json!({"metadata": {"labels": labels}}));
                "labels the copy"
            }
            8 => {
                world.delete(&keys.copy);
                "deletes the copy"
            }
            9 => {
                let labels = json!({CLUSTER: null, NAME: null});
                world.patch(&keys.copy, json!({"metadata": {"labels": labels}}));
                "takes the marks off the copy"
            }
            10 => {
                world.set_status(&keys.copy, json!({"seen": value}));
                "sets the status of the copy"
            }
            11 | 12 => {
                let key = if what == 11 {
                    &keys.credentials.0
                } else {
                    &keys.settings.0
                };
                match (value, world.get(key).is_some()) {
                    (0, _) => world.delete(key),
                    (_, true) => world.patch(key, secret),
                    (_, false) => world.put(key, &secret),
                };
                if what == 11 {
                    "changes the credentials"
                } else {
                    "changes the settings"
                }
            }
            13 => {
                if world.delete(&keys.state) {
                    self.grace[number].lost = true;
                }
                "deletes the memory"
            }
            14 | 19 => {
                if what == 19 {
                    world.delete(&keys.copy);
                }
                let annotations = json!({FOREIGN: "somebody"});
                world.put(
                    &keys.copy,
                    &json!({"metadata": {"annotations": annotations}}),
                );
                "has an object of the name"
            }
            15 => {
                let both = [&keys.credentials.1, &keys.settings.1];
                let key = *self.dice.pick(&both);
                let annotations = json!({FOREIGN: "somebody"});
                let content =
                    json!({"metadata": {"annotations": annotations}, "data": {"own": "1"}});
                world.put(key, &content);
                "has a secret of the name"
            }
            16 => {
                let all = [&keys.copy, &keys.credentials.1, &keys.settings.1];
                let key = *self.dice.pick(&all);
                let is_foreign = world
                    .get(key)
                    .is_some_and(|it| it.annotation(FOREIGN).is_some());
                if is_foreign {
                    world.delete(key);
                }
                "may remove a foreign object"
            }
            17 => {
                let both = [&keys.credentials.1, &keys.settings.1];
                let key = *self.dice.pick(&both);
                let is_foreign = world
                    .get(key)
                    .is_some_and(|it| it.annotation(FOREIGN).is_some());
                if !is_foreign {
                    world.delete(key);
                }
                "deletes the copy of a secret"
            }
            _ => {
                self.hold(number, value < 2);
                "holds the thing, or lets it go"
            }
        };
        self.note(|| format!("somebody {name} of {} ({value})", id.source()));
    }

    /// Adds or removes the finalizer of somebody else.
    pub(super) fn hold(&mut self, number: usize, holds: bool) {
        let key = &SUBJECTS[number].0.thing;
        let Some(thing) = self.world.get(key) else {
            return;
        };
        if holds && thing.in_deletion() {
            return;
        }
        let others = thing.finalizers().filter(|it| *it != checker::OTHER);
        let mut all: Vec<String> = others.map(str::to_owned).collect();
        if holds {
            all.push(checker::OTHER.to_owned());
        }
        self.world
            .patch(key, json!({"metadata": {"finalizers": all}}));
    }

    /// Foreign objects go, so that what was refused can succeed; returns whether there were any.
    pub(super) fn remove_foreign(&mut self) -> bool {
        let all = self.world.objects.iter();
        let foreign = all.filter(|(_, object)| object.annotation(FOREIGN).is_some());
        let foreign: Vec<_> = foreign.map(|(key, _)| key.clone()).collect();
        for key in &foreign {
            self.world.delete(key);
        }
        if foreign.is_empty() {
            return false;
        }
        self.note(|| "foreign objects go".to_owned());
        self.calm_since = self.now;
        true
    }

    pub(super) fn delete_all(&mut self) {
        self.note(|| "everything is deleted".to_owned());
        self.calm_since = self.now;
        for id in SUBJECTS.iter() {
            self.world.delete(&id.0.thing);
            for original in [&id.0.credentials.0, &id.0.settings.0] {
                if self
                    .world
                    .get(original)
                    .is_some_and(|it| it.annotation(FOREIGN).is_none())
                {
                    self.world.delete(original);
                }
            }
        }
    }
}
