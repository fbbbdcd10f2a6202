"""The halves of a study whose training set is sensitive too: nothing is fitted to it, and its content is no part of
the study's fingerprint. The public half is what the study says of it.
"""

from dataclasses import replace

from dpbo_core import data
from dpbo_core.data import Preprocessing
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.data.people import read_people, surplus_mask
from dpbo_core.methods.problem import Problem, TrainingFacts
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study.data_files import check_n_validation, check_person, left_out, training_table
from dpbo_core.study.data_split import Halves, validation_table
from dpbo_core.study.public_half import PublicHalf


class SensitiveHalves(Halves):
    """The halves of one sensitive file, of two, or of a bundled set that is taken for sensitive."""

    def public(self, problem: Problem) -> PublicHalf:
        """Return what the study declares, with the columns of the training file's header."""
        section, facts = self.spec.data, self._facts
        tables = section.tables()
        header, ignored = self._header().columns if tables is None else tables[0].columns, left_out(self.spec)
        columns = tuple(name for name in header if name not in ignored)
        target, bounds, bias = section.target_column, section.public_bounds, self.spec.model.bias
        declared = Preprocessing.public(columns, target, labels=facts.classes, bounds=bounds, bias=bias)
        declared = replace(declared, ignored=ignored)
        return PublicHalf(
            problem=replace(problem, training=replace(facts, feature_names=declared.feature_names)),
            preprocessing=declared,
            columns=columns,
            target=target,
            fingerprint="",  # a hash of sensitive records would tell whether a guess of them is right
        )

    def check_headers(self, problem: Problem) -> None:
        """Refuse sensitive files that are missing or not as stated, by their headers."""
        if self.spec.data.training_file:
            self.check(self.public(problem))

    def check(self, public: PublicHalf) -> None:
        """Refuse missing files, other columns than in training, or other numbers of records than stated."""
        file_name = self.spec.data.training_file
        if file_name:
            header = self._header()
            check_person(self.spec, header.columns, display_name=file_name)
            data.check_record_count(
                header.n_records, self._facts.n_records, display_name=file_name, key="n_training"
            )
        super().check(public)

    def sensitive(self, public: PublicHalf) -> Objective:
        """Read the SENSITIVE training records, and the validation file if there is one: their sealed scorer."""
        spec, encode, score = self.spec, public.preprocessing.transform, public.problem.score
        trained_on, _ = training_table(spec, self.folder)
        n = self._facts.n_records
        data.check_record_count(trained_on.n_records, n, display_name="the training set", key="n_training")
        if spec.privacy.person is not None:
            file_name = spec.data.training_file
            people = read_people(str(self.folder / file_name), spec.privacy.person, display_name=file_name)
            data.check_record_count(len(people), n, display_name="the training set", key="n_training")
            trained_on = trained_on.with_broken(surplus_mask(people, 1))
        training = Sensitive(encode(trained_on))
        if not spec.data.has_validation:
            return Objective(training, score, training)
        table = validation_table(spec.data, self.folder)
        check_n_validation(spec, table.n_records)
        return Objective(Sensitive(encode(table)), score, training)

    @property
    def _facts(self) -> TrainingFacts:
        facts = self.spec.data.facts
        if facts is None:
            raise TypeError("the training set is public")
        return facts

    def _header(self) -> data.Header:
        file_name = self.spec.data.training_file
        return data.read_header(self.folder / file_name, mode=SENSITIVE_FILE, display_name=file_name)
