"""What every store of memberships must do."""

from __future__ import annotations

from braid.ports.members import Membership, MembershipStore, Role

from tests.contract.shapes import ACME, GLOBEX

ADA, BEN = "user:ada", "iam:arn:aws:sts::123456789012:assumed-role/Ben"


class MembersContract:
    """Subclass this and provide the fixture ``members``: memberships that are none for every test."""

    def test_the_port_is_implemented(self, members: MembershipStore) -> None:
        assert isinstance(members, MembershipStore)

    def test_who_was_never_added_is_a_member_of_nothing(self, members: MembershipStore) -> None:
        assert members.role(ADA, ACME) is None
        assert members.of(ADA) == []
        assert not members.remove(ADA, ACME)

    def test_a_member_has_a_role_in_the_tenant_and_in_no_other(self, members: MembershipStore) -> None:
        members.add(Membership(subject=ADA, tenant_id=ACME, role=Role.WRITER))
        assert members.role(ADA, ACME) is Role.WRITER
        assert members.role(ADA, GLOBEX) is None
        assert members.role(BEN, ACME) is None

    def test_names_are_compared_whole_and_as_they_are_written(self, members: MembershipStore) -> None:
        members.add(Membership(subject=ADA, tenant_id=ACME))
        for subject in ("user:ad", "user:ada2", "user:ADA", "iam:ada", "%", "user:%", "user:ada' OR '1'='1"):
            assert members.role(subject, ACME) is None
        for tenant in (ACME[:-1], ACME.upper(), f"{ACME}x"):
            assert members.role(ADA, tenant) is None

    def test_a_new_role_takes_the_place_of_the_old(self, members: MembershipStore) -> None:
        for role in (Role.WRITER, Role.READER):
            members.add(Membership(subject=ADA, tenant_id=ACME, role=role))
        assert members.role(ADA, ACME) is Role.READER

    def test_who_was_removed_is_a_member_no_longer(self, members: MembershipStore) -> None:
        for tenant in (ACME, GLOBEX):
            members.add(Membership(subject=ADA, tenant_id=tenant))
        assert members.remove(ADA, ACME)
        assert not members.remove(ADA, ACME)
        assert members.role(ADA, ACME) is None
        assert members.role(ADA, GLOBEX) is Role.READER

    def test_all_memberships_of_one_are_listed_by_the_tenants_names(self, members: MembershipStore) -> None:
        tenants = sorted(f"tenant-{number}" for number in range(12))
        for tenant in reversed(tenants):
            members.add(Membership(subject=BEN, tenant_id=tenant, role=Role.WRITER))
        members.add(Membership(subject=ADA, tenant_id=ACME))
        assert members.of(BEN) == [Membership(subject=BEN, tenant_id=name, role=Role.WRITER) for name in tenants]

    def test_a_tenant_is_forgotten_with_all_its_members_and_no_others(self, members: MembershipStore) -> None:
        for tenant, subject in ((ACME, ADA), (ACME, BEN), (GLOBEX, ADA), (f"{ACME}-2", BEN)):
            members.add(Membership(subject=subject, tenant_id=tenant))
        assert (members.forget(ACME), members.forget(ACME)) == (2, 0)
        assert [one.tenant_id for subject in (ADA, BEN) for one in members.of(subject)] == [GLOBEX, f"{ACME}-2"]
