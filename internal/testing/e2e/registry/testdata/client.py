"""Writes and reads topics with Confluent's client.

client.py write BROKERS REGISTRY OBSERVATIONS  writes the topics avro, protobuf and json_schema
client.py read BROKERS REGISTRY TOPIC N        prints N records of Avro as JSON with their ids
"""
import datetime
import json
import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

command, brokers, url = sys.argv[1:4]
registry = SchemaRegistryClient({"url": url})

AVRO = {"type": "record", "name": "Reading", "namespace": "plant", "fields": [
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "data", "type": {"type": "record", "name": "Data", "fields": [{"name": "x", "type": ["null", "double"]}]}},
]}
# The second schema has another field before the others.
EVOLVED = dict(AVRO, fields=[{"name": "unit", "type": "string", "default": "K"}] + AVRO["fields"])
KEY = {"type": "record", "name": "Key", "fields": [{"name": "sensor", "type": "string"}]}
JSON = {"title": "Reading", "type": "object", "properties": {"at": {"type": "string"}, "data": {"type": "object"}}}


def reading():
    """The class of a message plant.Reading, and of the Data in it."""
    f = descriptor_pb2.FileDescriptorProto(name="plant/reading.proto", package="plant", syntax="proto3")
    f.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    m = f.message_type.add(name="Reading")
    data = m.nested_type.add(name="Data")
    kind = descriptor_pb2.FieldDescriptorProto
    one = kind.LABEL_OPTIONAL
    data.field.add(name="x", number=1, label=one, type=kind.TYPE_MESSAGE, type_name=".google.protobuf.DoubleValue")
    m.field.add(name="at", number=1, label=one, type=kind.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    m.field.add(name="data", number=2, label=one, type=kind.TYPE_MESSAGE, type_name=".plant.Reading.Data")
    pool = descriptor_pool.DescriptorPool()
    for of in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(of.DESCRIPTOR.serialized_pb)
    pool.Add(f)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("plant.Reading"))


def write(path):
    Reading = reading()
    key = AvroSerializer(registry, json.dumps(KEY))
    avro = AvroSerializer(registry, json.dumps(AVRO))
    evolved = AvroSerializer(registry, json.dumps(EVOLVED))
    proto = ProtobufSerializer(Reading, registry, {"use.deprecated.format": False})
    text = JSONSerializer(json.dumps(JSON), registry)
    producer = Producer({"bootstrap.servers": brokers})
    lines = [json.loads(line) for line in open(path)]
    for i, o in enumerate(lines):
        at = datetime.datetime.fromisoformat(o["at"].replace("Z", "+00:00"))
        value = {"unit": "K", "at": at, "data": {"x": o["x"]}}
        m = Reading()
        m.at.FromDatetime(at)
        m.data.SetInParent()
        if o["x"] is not None:
            m.data.x.value = o["x"]
        for topic, serialize, v in [
            ("avro", avro if i < len(lines) // 2 else evolved, value),
            ("protobuf", proto, m),
            ("json_schema", text, {"at": o["at"], "data": {"x": o["x"]}}),
        ]:
            k = key({"sensor": o["key"]}, SerializationContext(topic, MessageField.KEY)) if topic == "avro" else o["key"].encode()
            producer.produce(topic, key=k, value=serialize(v, SerializationContext(topic, MessageField.VALUE)), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(topic, n):
    deserialize = AvroDeserializer(registry)
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "client", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    for _ in range(int(n)):
        m = consumer.poll(60)
        assert m is not None and m.error() is None, m and m.error()
        value = deserialize(m.value(), SerializationContext(topic, MessageField.VALUE))
        value["id"] = dict(m.headers())["id"].decode()
        print(json.dumps(value, default=lambda t: t.isoformat()))
    consumer.close()


{"write": write, "read": read}[command](*sys.argv[4:])
