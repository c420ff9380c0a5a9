"""Tables of the first version with collections in PostgreSQL."""

import sqlalchemy as sa
from alembic import op

from cbir.store.postgresql.postgresql_schema import number_function

revision = "0001"
down_revision = None
TEXT = sa.Text(collation="C")


def upgrade() -> None:
    """Create the tables, and the function that compares labels as numbers."""
    op.execute(number_function())
    op.create_table(
        "changes",
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.Column("at", TEXT, nullable=False),
        sa.Column("who", TEXT, nullable=False),
        sa.Column("what", TEXT, nullable=False),
        sa.Column("images", sa.BigInteger(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=True),
        sa.Column("last", sa.BigInteger(), nullable=True),
        sa.Column("token", sa.Uuid(), server_default=sa.func.gen_random_uuid(), nullable=False),
        sa.PrimaryKeyConstraint("change"),
    )
    op.create_table(
        "erased",
        sa.Column("mark", TEXT, nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("mark"),
    )
    op.create_table(
        "forgotten",
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("patient_key", TEXT, nullable=True),
        sa.Column("at", TEXT, nullable=True),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("content_hash"),
    )
    op.create_index(op.f("ix_forgotten_patient_key"), "forgotten", ["patient_key"], unique=False)
    op.create_table(
        "images",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("image_id", TEXT, nullable=False),
        sa.Column("content_hash", TEXT, nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("source_stamp", TEXT, nullable=False),
        sa.Column("format", TEXT, nullable=False),
        sa.Column("frame", sa.BigInteger(), nullable=True),
        sa.Column("width", sa.BigInteger(), nullable=False),
        sa.Column("height", sa.BigInteger(), nullable=False),
        sa.Column("study", TEXT, nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("instance", TEXT, nullable=False),
        sa.Column("burned_in", sa.BigInteger(), nullable=False),
        sa.Column("patient_key", TEXT, nullable=True),
        sa.Column("sop_class", TEXT, server_default="", nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("image_id"),
    )
    op.create_index(op.f("ix_images_content_hash"), "images", ["content_hash"], unique=False)
    op.create_index(op.f("ix_images_instance"), "images", ["instance"], unique=False)
    op.create_index(op.f("ix_images_patient_key"), "images", ["patient_key"], unique=False)
    # Of its hash: paths may be longer than what a tree takes.
    op.create_index(op.f("ix_images_source"), "images", ["source"], unique=False, postgresql_using="hash")
    op.create_index(op.f("ix_images_study"), "images", ["study"], unique=False)
    op.create_table(
        "meta",
        sa.Column("key", TEXT, nullable=False),
        sa.Column("value", TEXT, nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "originals",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "replies",
        sa.Column("key", TEXT, nullable=False),
        sa.Column("request", TEXT, nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("body", TEXT, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "tombstones",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index(op.f("ix_tombstones_generation"), "tombstones", ["generation"], unique=False)
    op.create_table(
        "changed_images",
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.Column("image_id", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["change"], ["changes.change"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("change", "image_id"),
    )
    op.create_table(
        "instance_copies",
        sa.Column("instance", TEXT, nullable=False),
        sa.Column("sop_class", TEXT, nullable=False),
        sa.Column("patient_key", TEXT, nullable=True),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["number"], ["images.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("instance"),
    )
    op.create_index(op.f("ix_instance_copies_number"), "instance_copies", ["number"], unique=False)
    op.create_index(op.f("ix_instance_copies_patient_key"), "instance_copies", ["patient_key"], unique=False)
    op.create_table(
        "labels",
        sa.Column("key", TEXT, nullable=False),
        sa.Column("value", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["number"], ["images.number"], ondelete="CASCADE"),
    )
    # Of the beginning of values, which may be longer than what a tree takes. An image has one value of a key.
    op.create_index("ix_labels_beginning", "labels", ["key", sa.text("left(value, 300)"), "number"])
    op.create_index("ix_labels_number", "labels", ["number", "key"], unique=True)
    op.create_table(
        "thumbnails",
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("picture", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["number"], ["images.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "vectors",
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["number"], ["images.number"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number"),
    )
