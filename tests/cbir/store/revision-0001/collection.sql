--
-- PostgreSQL database dump
--


-- Dumped from database version 18.4
-- Dumped by pg_dump version 18.4

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: stored; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA stored;


--
-- Name: as_number(text); Type: FUNCTION; Schema: stored; Owner: -
--

CREATE FUNCTION stored.as_number(given text) RETURNS double precision
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $_$
DECLARE
    plain text := btrim(translate(given, U&'\+000660\+000661\+000662\+000663\+000664\+000665\+000666\+000667\+000668\+000669\+0006F0\+0006F1\+0006F2\+0006F3\+0006F4\+0006F5\+0006F6\+0006F7\+0006F8\+0006F9\+0007C0\+0007C1\+0007C2\+0007C3\+0007C4\+0007C5\+0007C6\+0007C7\+0007C8\+0007C9\+000966\+000967\+000968\+000969\+00096A\+00096B\+00096C\+00096D\+00096E\+00096F\+0009E6\+0009E7\+0009E8\+0009E9\+0009EA\+0009EB\+0009EC\+0009ED\+0009EE\+0009EF\+000A66\+000A67\+000A68\+000A69\+000A6A\+000A6B\+000A6C\+000A6D\+000A6E\+000A6F\+000AE6\+000AE7\+000AE8\+000AE9\+000AEA\+000AEB\+000AEC\+000AED\+000AEE\+000AEF\+000B66\+000B67\+000B68\+000B69\+000B6A\+000B6B\+000B6C\+000B6D\+000B6E\+000B6F\+000BE6\+000BE7\+000BE8\+000BE9\+000BEA\+000BEB\+000BEC\+000BED\+000BEE\+000BEF\+000C66\+000C67\+000C68\+000C69\+000C6A\+000C6B\+000C6C\+000C6D\+000C6E\+000C6F\+000CE6\+000CE7\+000CE8\+000CE9\+000CEA\+000CEB\+000CEC\+000CED\+000CEE\+000CEF\+000D66\+000D67\+000D68\+000D69\+000D6A\+000D6B\+000D6C\+000D6D\+000D6E\+000D6F\+000DE6\+000DE7\+000DE8\+000DE9\+000DEA\+000DEB\+000DEC\+000DED\+000DEE\+000DEF\+000E50\+000E51\+000E52\+000E53\+000E54\+000E55\+000E56\+000E57\+000E58\+000E59\+000ED0\+000ED1\+000ED2\+000ED3\+000ED4\+000ED5\+000ED6\+000ED7\+000ED8\+000ED9\+000F20\+000F21\+000F22\+000F23\+000F24\+000F25\+000F26\+000F27\+000F28\+000F29\+001040\+001041\+001042\+001043\+001044\+001045\+001046\+001047\+001048\+001049\+001090\+001091\+001092\+001093\+001094\+001095\+001096\+001097\+001098\+001099\+0017E0\+0017E1\+0017E2\+0017E3\+0017E4\+0017E5\+0017E6\+0017E7\+0017E8\+0017E9\+001810\+001811\+001812\+001813\+001814\+001815\+001816\+001817\+001818\+001819\+001946\+001947\+001948\+001949\+00194A\+00194B\+00194C\+00194D\+00194E\+00194F\+0019D0\+0019D1\+0019D2\+0019D3\+0019D4\+0019D5\+0019D6\+0019D7\+0019D8\+0019D9\+001A80\+001A81\+001A82\+001A83\+001A84\+001A85\+001A86\+001A87\+001A88\+001A89\+001A90\+001A91\+001A92\+001A93\+001A94\+001A95\+001A96\+001A97\+001A98\+001A99\+001B50\+001B51\+001B52\+001B53\+001B54\+001B55\+001B56\+001B57\+001B58\+001B59\+001BB0\+001BB1\+001BB2\+001BB3\+001BB4\+001BB5\+001BB6\+001BB7\+001BB8\+001BB9\+001C40\+001C41\+001C42\+001C43\+001C44\+001C45\+001C46\+001C47\+001C48\+001C49\+001C50\+001C51\+001C52\+001C53\+001C54\+001C55\+001C56\+001C57\+001C58\+001C59\+00A620\+00A621\+00A622\+00A623\+00A624\+00A625\+00A626\+00A627\+00A628\+00A629\+00A8D0\+00A8D1\+00A8D2\+00A8D3\+00A8D4\+00A8D5\+00A8D6\+00A8D7\+00A8D8\+00A8D9\+00A900\+00A901\+00A902\+00A903\+00A904\+00A905\+00A906\+00A907\+00A908\+00A909\+00A9D0\+00A9D1\+00A9D2\+00A9D3\+00A9D4\+00A9D5\+00A9D6\+00A9D7\+00A9D8\+00A9D9\+00A9F0\+00A9F1\+00A9F2\+00A9F3\+00A9F4\+00A9F5\+00A9F6\+00A9F7\+00A9F8\+00A9F9\+00AA50\+00AA51\+00AA52\+00AA53\+00AA54\+00AA55\+00AA56\+00AA57\+00AA58\+00AA59\+00ABF0\+00ABF1\+00ABF2\+00ABF3\+00ABF4\+00ABF5\+00ABF6\+00ABF7\+00ABF8\+00ABF9\+00FF10\+00FF11\+00FF12\+00FF13\+00FF14\+00FF15\+00FF16\+00FF17\+00FF18\+00FF19\+0104A0\+0104A1\+0104A2\+0104A3\+0104A4\+0104A5\+0104A6\+0104A7\+0104A8\+0104A9\+010D30\+010D31\+010D32\+010D33\+010D34\+010D35\+010D36\+010D37\+010D38\+010D39\+011066\+011067\+011068\+011069\+01106A\+01106B\+01106C\+01106D\+01106E\+01106F\+0110F0\+0110F1\+0110F2\+0110F3\+0110F4\+0110F5\+0110F6\+0110F7\+0110F8\+0110F9\+011136\+011137\+011138\+011139\+01113A\+01113B\+01113C\+01113D\+01113E\+01113F\+0111D0\+0111D1\+0111D2\+0111D3\+0111D4\+0111D5\+0111D6\+0111D7\+0111D8\+0111D9\+0112F0\+0112F1\+0112F2\+0112F3\+0112F4\+0112F5\+0112F6\+0112F7\+0112F8\+0112F9\+011450\+011451\+011452\+011453\+011454\+011455\+011456\+011457\+011458\+011459\+0114D0\+0114D1\+0114D2\+0114D3\+0114D4\+0114D5\+0114D6\+0114D7\+0114D8\+0114D9\+011650\+011651\+011652\+011653\+011654\+011655\+011656\+011657\+011658\+011659\+0116C0\+0116C1\+0116C2\+0116C3\+0116C4\+0116C5\+0116C6\+0116C7\+0116C8\+0116C9\+011730\+011731\+011732\+011733\+011734\+011735\+011736\+011737\+011738\+011739\+0118E0\+0118E1\+0118E2\+0118E3\+0118E4\+0118E5\+0118E6\+0118E7\+0118E8\+0118E9\+011950\+011951\+011952\+011953\+011954\+011955\+011956\+011957\+011958\+011959\+011C50\+011C51\+011C52\+011C53\+011C54\+011C55\+011C56\+011C57\+011C58\+011C59\+011D50\+011D51\+011D52\+011D53\+011D54\+011D55\+011D56\+011D57\+011D58\+011D59\+011DA0\+011DA1\+011DA2\+011DA3\+011DA4\+011DA5\+011DA6\+011DA7\+011DA8\+011DA9\+016A60\+016A61\+016A62\+016A63\+016A64\+016A65\+016A66\+016A67\+016A68\+016A69\+016AC0\+016AC1\+016AC2\+016AC3\+016AC4\+016AC5\+016AC6\+016AC7\+016AC8\+016AC9\+016B50\+016B51\+016B52\+016B53\+016B54\+016B55\+016B56\+016B57\+016B58\+016B59\+01D7CE\+01D7CF\+01D7D0\+01D7D1\+01D7D2\+01D7D3\+01D7D4\+01D7D5\+01D7D6\+01D7D7\+01D7D8\+01D7D9\+01D7DA\+01D7DB\+01D7DC\+01D7DD\+01D7DE\+01D7DF\+01D7E0\+01D7E1\+01D7E2\+01D7E3\+01D7E4\+01D7E5\+01D7E6\+01D7E7\+01D7E8\+01D7E9\+01D7EA\+01D7EB\+01D7EC\+01D7ED\+01D7EE\+01D7EF\+01D7F0\+01D7F1\+01D7F2\+01D7F3\+01D7F4\+01D7F5\+01D7F6\+01D7F7\+01D7F8\+01D7F9\+01D7FA\+01D7FB\+01D7FC\+01D7FD\+01D7FE\+01D7FF\+01E140\+01E141\+01E142\+01E143\+01E144\+01E145\+01E146\+01E147\+01E148\+01E149\+01E2F0\+01E2F1\+01E2F2\+01E2F3\+01E2F4\+01E2F5\+01E2F6\+01E2F7\+01E2F8\+01E2F9\+01E950\+01E951\+01E952\+01E953\+01E954\+01E955\+01E956\+01E957\+01E958\+01E959\+01FBF0\+01FBF1\+01FBF2\+01FBF3\+01FBF4\+01FBF5\+01FBF6\+01FBF7\+01FBF8\+01FBF9', '01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789'), U&'\+000009\+00000A\+00000B\+00000C\+00000D\+000020\+000085\+0000A0\+001680\+002000\+002001\+002002\+002003\+002004\+002005\+002006\+002007\+002008\+002009\+00200A\+002028\+002029\+00202F\+00205F\+003000');
    mantissa text;
    digits text;
    exponent numeric;
BEGIN
    IF plain !~ '^[+-]?([0-9]+(_[0-9]+)*\.?([0-9]+(_[0-9]+)*)?|\.[0-9]+(_[0-9]+)*)([eE][+-]?[0-9]+(_[0-9]+)*)?$' THEN
        RETURN NULL;
    END IF;
    plain := lower(replace(plain, '_', ''));
    IF length(plain) < 20 AND position('e' IN plain) = 0 THEN
        RETURN plain::double precision;
    END IF;
    mantissa := ltrim(split_part(plain, 'e', 1), '+-');
    digits := ltrim(replace(mantissa, '.', ''), '0');
    IF digits = '' THEN
        RETURN 0;
    END IF;
    exponent := length(split_part(mantissa, '.', 1)) - length(replace(mantissa, '.', '')) + length(digits)
        + coalesce(nullif(split_part(plain, 'e', 2), '')::numeric, 0);
    IF exponent > 400 THEN
        RETURN NULL;
    ELSIF exponent < -400 THEN
        RETURN 0;
    ELSIF abs(exponent) > 300 THEN
        IF abs(plain::numeric) >= 179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792 THEN
            RETURN NULL;
        ELSIF abs(plain::numeric) * 404804506614621236704990693437834614099113299528284236713802716054860679135990693783920767402874248990374155728633623822779617474771586953734026799881477019843034848553132722728933815484186432682479535356945490137124014966849385397236206711298319112681620113024717539104666829230461005064372655017292012526615415482186989568::numeric <= 1 THEN
            RETURN 0;
        END IF;
    END IF;
    RETURN plain::double precision;
END
$_$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: alembic_version; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.alembic_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: changed_images; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.changed_images (
    change bigint NOT NULL,
    image_id text NOT NULL COLLATE pg_catalog."C"
);


--
-- Name: changes; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.changes (
    change bigint NOT NULL,
    at text NOT NULL COLLATE pg_catalog."C",
    who text NOT NULL COLLATE pg_catalog."C",
    what text NOT NULL COLLATE pg_catalog."C",
    images bigint NOT NULL,
    first bigint,
    last bigint,
    token uuid DEFAULT gen_random_uuid() NOT NULL
);


--
-- Name: changes_change_seq; Type: SEQUENCE; Schema: stored; Owner: -
--

CREATE SEQUENCE stored.changes_change_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: changes_change_seq; Type: SEQUENCE OWNED BY; Schema: stored; Owner: -
--

ALTER SEQUENCE stored.changes_change_seq OWNED BY stored.changes.change;


--
-- Name: erased; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.erased (
    mark text NOT NULL COLLATE pg_catalog."C",
    checksum bigint
);


--
-- Name: forgotten; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.forgotten (
    content_hash text NOT NULL COLLATE pg_catalog."C",
    patient_key text COLLATE pg_catalog."C",
    at text COLLATE pg_catalog."C",
    checksum bigint
);


--
-- Name: images; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.images (
    number bigint NOT NULL,
    image_id text NOT NULL COLLATE pg_catalog."C",
    content_hash text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    source_stamp text NOT NULL COLLATE pg_catalog."C",
    format text NOT NULL COLLATE pg_catalog."C",
    frame bigint,
    width bigint NOT NULL,
    height bigint NOT NULL,
    study text NOT NULL COLLATE pg_catalog."C",
    series text NOT NULL COLLATE pg_catalog."C",
    instance text NOT NULL COLLATE pg_catalog."C",
    burned_in bigint NOT NULL,
    patient_key text COLLATE pg_catalog."C",
    sop_class text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    checksum bigint
);


--
-- Name: instance_copies; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.instance_copies (
    instance text NOT NULL COLLATE pg_catalog."C",
    sop_class text NOT NULL COLLATE pg_catalog."C",
    patient_key text COLLATE pg_catalog."C",
    number bigint NOT NULL,
    checksum bigint
);


--
-- Name: labels; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.labels (
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C",
    number bigint NOT NULL,
    checksum bigint
);


--
-- Name: meta; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.meta (
    key text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C",
    checksum bigint
);


--
-- Name: originals; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.originals (
    name text NOT NULL COLLATE pg_catalog."C",
    checksum bigint
);


--
-- Name: replies; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.replies (
    key text NOT NULL COLLATE pg_catalog."C",
    request text NOT NULL COLLATE pg_catalog."C",
    status bigint NOT NULL,
    body text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL
);


--
-- Name: thumbnails; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.thumbnails (
    number bigint NOT NULL,
    picture bytea NOT NULL,
    checksum bigint
);


--
-- Name: tombstones; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.tombstones (
    number bigint NOT NULL,
    generation bigint NOT NULL
);


--
-- Name: vectors; Type: TABLE; Schema: stored; Owner: -
--

CREATE TABLE stored.vectors (
    number bigint NOT NULL,
    vector bytea NOT NULL,
    checksum bigint
);


--
-- Name: changes change; Type: DEFAULT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.changes ALTER COLUMN change SET DEFAULT nextval('stored.changes_change_seq'::regclass);


--
-- Data for Name: alembic_version; Type: TABLE DATA; Schema: stored; Owner: -
--

INSERT INTO stored.alembic_version VALUES ('0001');


--
-- Data for Name: changed_images; Type: TABLE DATA; Schema: stored; Owner: -
--

INSERT INTO stored.changed_images VALUES (2, 'c3585b60b755fb13e6e65a16d20f1230');


--
-- Data for Name: changes; Type: TABLE DATA; Schema: stored; Owner: -
--

INSERT INTO stored.changes VALUES (1, '2026-11-23T16:19:10+00:00', 'command line', 'added', 15, 1, 15, '80babf4c-0dcc-48f1-a4b1-2e6fb1e39e56');
INSERT INTO stored.changes VALUES (2, '2026-11-23T16:19:11+00:00', 'command line', 'deleted', 1, NULL, NULL, 'e7f04840-d78b-4cdf-a8e5-393422d44b91');
INSERT INTO stored.changes VALUES (3, '2026-11-23T16:19:11+00:00', 'command line', 'added', 5, 16, 20, '54009126-767a-487a-a52e-b1c1c4764824');
INSERT INTO stored.changes VALUES (4, '2026-11-23T16:19:12+00:00', 'command line', 'added', 2, 21, 22, '1bd16017-ea50-44ac-976d-efccfb9999c9');


--
-- Data for Name: erased; Type: TABLE DATA; Schema: stored; Owner: -
--



--
-- Data for Name: forgotten; Type: TABLE DATA; Schema: stored; Owner: -
--

INSERT INTO stored.forgotten VALUES ('c3585b60b755fb13e6e65a16d20f1230', '00000000000000000000000000000000', '2026-11-23T16:19:11+00:00', 3502373036);


--
-- Data for Name: images; Type: TABLE DATA; Schema: stored; Owner: -
--

INSERT INTO stored.images VALUES (1, '1240a4684403b160e6597a653a88f56c', '1240a4684403b160e6597a653a88f56c', '/images/0.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000000', '', 1106168752);
INSERT INTO stored.images VALUES (2, 'cea3878a334b240469d159ff840b6434', 'cea3878a334b240469d159ff840b6434', '/images/1.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000001', '', 3511964596);
INSERT INTO stored.images VALUES (3, '4129e2a8044a57ce7635fd6023661cd6', '4129e2a8044a57ce7635fd6023661cd6', '/images/2.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000002', '', 3285040194);
INSERT INTO stored.images VALUES (21, '39ca2d8837ef13efe2306ca1503096c5', '39ca2d8837ef13efe2306ca1503096c5', '/images/20.png', '1', 'png', NULL, 10, 20, '', '', '', 0, NULL, '', 2352099163);
INSERT INTO stored.images VALUES (5, 'c33cedce35493fc82dfad8ee5206e23e', 'c33cedce35493fc82dfad8ee5206e23e', '/images/4.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000001', '', 2487897924);
INSERT INTO stored.images VALUES (6, '6152bc863269f1d04b4d21185d6bb25e', '6152bc863269f1d04b4d21185d6bb25e', '/images/5.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000002', '', 2316314201);
INSERT INTO stored.images VALUES (7, 'd4c0473feca7a8da3a323d15ba6ed8a1', 'd4c0473feca7a8da3a323d15ba6ed8a1', '/images/6.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000000', '', 1700315038);
INSERT INTO stored.images VALUES (8, '9e287f590d2dcbbf387bfb70928e621d', '9e287f590d2dcbbf387bfb70928e621d', '/images/7.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000001', '', 744280595);
INSERT INTO stored.images VALUES (9, '96e23f7b90ac8163d14936fbab23cb64', '96e23f7b90ac8163d14936fbab23cb64', '/images/8.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000002', '', 2520449611);
INSERT INTO stored.images VALUES (10, 'c71c3e57d858543b15064b65d8c7e8c8', 'c71c3e57d858543b15064b65d8c7e8c8', '/images/9.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000000', '', 1902474262);
INSERT INTO stored.images VALUES (11, '6aa2bada80ced406b77991cbb7c8cc3e', '6aa2bada80ced406b77991cbb7c8cc3e', '/images/10.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000001', '', 1622297263);
INSERT INTO stored.images VALUES (12, 'e6b4f544e1e6a0b584960a7923fcb2e6', 'e6b4f544e1e6a0b584960a7923fcb2e6', '/images/11.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000002', '', 2365570054);
INSERT INTO stored.images VALUES (13, '68f978fe50aca8ee91e0e1f94618c62f', '68f978fe50aca8ee91e0e1f94618c62f', '/images/12.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000000', '', 1579382045);
INSERT INTO stored.images VALUES (14, 'b116fb80ba37be518541699f88f59552', 'b116fb80ba37be518541699f88f59552', '/images/13.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000001', '', 1325933111);
INSERT INTO stored.images VALUES (15, '4a8c8e8d6361d8ed66d9f09745e6c104', '4a8c8e8d6361d8ed66d9f09745e6c104', '/images/14.png', '1', 'png', NULL, 10, 20, '', '', '', 0, '00000000000000000000000000000002', '', 3659732177);
INSERT INTO stored.images VALUES (16, '9675b6dec15bf8bcc7647e466b1bfc69', '9675b6dec15bf8bcc7647e466b1bfc69', '/images/15.png', '1', 'png', NULL, 10, 20, '', '', '', 0, NULL, '', 1077775945);
INSERT INTO stored.images VALUES (17, '183262a1ae6456f5e586b93d795fefed', '183262a1ae6456f5e586b93d795fefed', '/images/16.png', '1', 'png', NULL, 10, 20, '', '', '', 0, NULL, '', 1476558214);
INSERT INTO stored.images VALUES (18, '1f749db43a13a74afd40d9b0a4fd3fef', '1f749db43a13a74afd40d9b0a4fd3fef', '/images/17.png', '1', 'png', NULL, 10, 20, '', '', '', 0, NULL, '', 3636122978);
INSERT INTO stored.images VALUES (19, '06784f88d03a5d474547bfc6f345c658', '06784f88d03a5d474547bfc6f345c658', '/images/18.png', '1', 'png', NULL, 10, 20, '', '', '', 0, NULL, '', 3557335144);
INSERT INTO stored.images VALUES (20, '21c9676dfff9bd232db5acfa31f0ce37', '21c9676dfff9bd232db5acfa31f0ce37', '/images/19.png', '1', 'png', NULL, 10, 20, '', '', '', 0, NULL, '', 1221137956);
INSERT INTO stored.images VALUES (22, '906ac941285c6ad51caa897054bceb4f', '906ac941285c6ad51caa897054bceb4f', '/images/21.png', '1', 'png', NULL, 10, 20, '', '', '', 0, NULL, '', 2325706258);


--
-- Data for Name: instance_copies; Type: TABLE DATA; Schema: stored; Owner: -
--



--
-- Data for Name: labels; Type: TABLE DATA; Schema: stored; Owner: -
--

INSERT INTO stored.labels VALUES ('label', 'odd', 1, 415373375);
INSERT INTO stored.labels VALUES ('label', 'even', 2, 733491281);
INSERT INTO stored.labels VALUES ('label', 'odd', 3, 4140595475);
INSERT INTO stored.labels VALUES ('label', 'late', 21, 2656139302);
INSERT INTO stored.labels VALUES ('label', 'odd', 5, 531618854);
INSERT INTO stored.labels VALUES ('label', 'even', 6, 752219208);
INSERT INTO stored.labels VALUES ('label', 'odd', 7, 4053908746);
INSERT INTO stored.labels VALUES ('label', 'even', 8, 3412973903);
INSERT INTO stored.labels VALUES ('label', 'odd', 9, 370774029);
INSERT INTO stored.labels VALUES ('label', 'even', 10, 3283178928);
INSERT INTO stored.labels VALUES ('label', 'odd', 11, 899809426);
INSERT INTO stored.labels VALUES ('label', 'even', 12, 767505564);
INSERT INTO stored.labels VALUES ('label', 'odd', 13, 3685507518);
INSERT INTO stored.labels VALUES ('label', 'even', 14, 3302789545);
INSERT INTO stored.labels VALUES ('label', 'odd', 15, 852477067);
INSERT INTO stored.labels VALUES ('label', 'late', 22, 123218332);


--
-- Data for Name: meta; Type: TABLE DATA; Schema: stored; Owner: -
--

INSERT INTO stored.meta VALUES ('collection_id', '03feff8eac02a2ffd29ae470f0ecb4eb', 3845850228);
INSERT INTO stored.meta VALUES ('key_check', '57392e8b30807c750a33b0872f32da6d730b37ddf137b09c836ba0d2238d0da0', 685337674);
INSERT INTO stored.meta VALUES ('format', '2', 832918533);
INSERT INTO stored.meta VALUES ('profile', '{"name":"tamura","descriptor":"tamura","normalisation":"standardise","components":128,"weights":{},"metric":"euclidean","rerank":{}}', 4131232002);
INSERT INTO stored.meta VALUES ('created', '2026-11-23T16:19:10+00:00', 1703849361);
INSERT INTO stored.meta VALUES ('generation', '5', 532034366);
INSERT INTO stored.meta VALUES ('statistics', '{"mean": [5.160948276519775, 4.295536994934082, 4.61539363861084, 4.169776439666748, 5.351807594299316, 5.211574077606201], "scale": [0.4979848563671112, 0.3767758011817932, 0.42890283465385437, 0.4724382758140564, 0.4267165958881378, 0.6831722855567932], "fitted_on": 15}', 3029217356);


--
-- Data for Name: originals; Type: TABLE DATA; Schema: stored; Owner: -
--



--
-- Data for Name: replies; Type: TABLE DATA; Schema: stored; Owner: -
--



--
-- Data for Name: thumbnails; Type: TABLE DATA; Schema: stored; Owner: -
--



--
-- Data for Name: tombstones; Type: TABLE DATA; Schema: stored; Owner: -
--

INSERT INTO stored.tombstones VALUES (4, 3);


--
-- Data for Name: vectors; Type: TABLE DATA; Schema: stored; Owner: -
--

INSERT INTO stored.vectors VALUES (1, '\xf70ba840988b9740affcc840afb6a640306f7b406024b740', 186616503);
INSERT INTO stored.vectors VALUES (2, '\x0d1eb6406495d440e225b540253219405af1d9406791bc40', 2848587200);
INSERT INTO stored.vectors VALUES (3, '\x7319ac4094167d405e908540e6bfef3d34970941033ae940', 1715048246);
INSERT INTO stored.vectors VALUES (21, '\x31fb88400309ed404a66f940984db4402d81ba4037ab8040', 3169888148);
INSERT INTO stored.vectors VALUES (5, '\x1c926c406fd194403a3d05417a2fca4063cddb3fc0aa9f40', 2416537540);
INSERT INTO stored.vectors VALUES (6, '\x505a5940687b1640d81a904093e8ba40fdb4e8406e05a740', 614887339);
INSERT INTO stored.vectors VALUES (7, '\x4066e34004d908418b48dabd952b9740c7e0e0407e89f640', 2453326701);
INSERT INTO stored.vectors VALUES (8, '\x2814a040a61eb34086748e4016014e40ade68240ba114140', 2034138793);
INSERT INTO stored.vectors VALUES (9, '\xf900c33fe4e8144041c711401b7f89409deabf3e1ce99340', 1547276698);
INSERT INTO stored.vectors VALUES (10, '\xa43c5940da8aaf40bff9d73f9ffdc940562ee9406c088340', 2211585911);
INSERT INTO stored.vectors VALUES (11, '\xcec5324065326340ceed5b402216b140411790404c18a840', 2368868461);
INSERT INTO stored.vectors VALUES (12, '\x3730a2401b06f740d561ee4042ae7e4011ee8c40ad7e7c40', 2141324984);
INSERT INTO stored.vectors VALUES (13, '\x26909f4003f4e2402f76cf404e55ce4004cd034145b02540', 3208175273);
INSERT INTO stored.vectors VALUES (14, '\xca740a418f0d94bfec50dd40f074a440355ef44026aeb840', 533489193);
INSERT INTO stored.vectors VALUES (15, '\x6583cc4097a04240bd2fed3fbe9559bfa5648940c8d8ef40', 4158211623);
INSERT INTO stored.vectors VALUES (16, '\x27d90840341f48404936b940bbea7c40b2a3c14031abd340', 2074836310);
INSERT INTO stored.vectors VALUES (17, '\x18e07340c25ec840c784e2409ffae140cc2b0a410f598740', 2596172305);
INSERT INTO stored.vectors VALUES (18, '\x167be640dca8b54037e27a4065b01e401afa9a3f5f31a140', 2386233951);
INSERT INTO stored.vectors VALUES (19, '\x8b548440fd582f404120cb4022333240ff711041a724db40', 2827900279);
INSERT INTO stored.vectors VALUES (20, '\x84518840fc9edf40699dba4003e070405b04cb40c7640640', 884422933);
INSERT INTO stored.vectors VALUES (22, '\x25f6b64078570041ffb2b63fbdf80541c1f89c404d9a5940', 3782326820);


--
-- Name: changes_change_seq; Type: SEQUENCE SET; Schema: stored; Owner: -
--

SELECT pg_catalog.setval('stored.changes_change_seq', 4, true);


--
-- Name: alembic_version alembic_version_pkc; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);


--
-- Name: changed_images changed_images_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.changed_images
    ADD CONSTRAINT changed_images_pkey PRIMARY KEY (change, image_id);


--
-- Name: changes changes_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (change);


--
-- Name: erased erased_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.erased
    ADD CONSTRAINT erased_pkey PRIMARY KEY (mark);


--
-- Name: forgotten forgotten_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.forgotten
    ADD CONSTRAINT forgotten_pkey PRIMARY KEY (content_hash);


--
-- Name: images images_image_id_key; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.images
    ADD CONSTRAINT images_image_id_key UNIQUE (image_id);


--
-- Name: images images_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.images
    ADD CONSTRAINT images_pkey PRIMARY KEY (number);


--
-- Name: instance_copies instance_copies_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.instance_copies
    ADD CONSTRAINT instance_copies_pkey PRIMARY KEY (instance);


--
-- Name: meta meta_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (key);


--
-- Name: originals originals_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.originals
    ADD CONSTRAINT originals_pkey PRIMARY KEY (name);


--
-- Name: replies replies_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.replies
    ADD CONSTRAINT replies_pkey PRIMARY KEY (key);


--
-- Name: thumbnails thumbnails_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.thumbnails
    ADD CONSTRAINT thumbnails_pkey PRIMARY KEY (number);


--
-- Name: tombstones tombstones_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.tombstones
    ADD CONSTRAINT tombstones_pkey PRIMARY KEY (number);


--
-- Name: vectors vectors_pkey; Type: CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.vectors
    ADD CONSTRAINT vectors_pkey PRIMARY KEY (number);


--
-- Name: ix_forgotten_patient_key; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_forgotten_patient_key ON stored.forgotten USING btree (patient_key);


--
-- Name: ix_images_content_hash; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_images_content_hash ON stored.images USING btree (content_hash);


--
-- Name: ix_images_instance; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_images_instance ON stored.images USING btree (instance);


--
-- Name: ix_images_patient_key; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_images_patient_key ON stored.images USING btree (patient_key);


--
-- Name: ix_images_source; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_images_source ON stored.images USING hash (source);


--
-- Name: ix_images_study; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_images_study ON stored.images USING btree (study);


--
-- Name: ix_instance_copies_number; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_instance_copies_number ON stored.instance_copies USING btree (number);


--
-- Name: ix_instance_copies_patient_key; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_instance_copies_patient_key ON stored.instance_copies USING btree (patient_key);


--
-- Name: ix_labels_beginning; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_labels_beginning ON stored.labels USING btree (key, "left"(value, 300), number);


--
-- Name: ix_labels_number; Type: INDEX; Schema: stored; Owner: -
--

CREATE UNIQUE INDEX ix_labels_number ON stored.labels USING btree (number, key);


--
-- Name: ix_tombstones_generation; Type: INDEX; Schema: stored; Owner: -
--

CREATE INDEX ix_tombstones_generation ON stored.tombstones USING btree (generation);


--
-- Name: changed_images changed_images_change_fkey; Type: FK CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.changed_images
    ADD CONSTRAINT changed_images_change_fkey FOREIGN KEY (change) REFERENCES stored.changes(change) ON DELETE CASCADE;


--
-- Name: instance_copies instance_copies_number_fkey; Type: FK CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.instance_copies
    ADD CONSTRAINT instance_copies_number_fkey FOREIGN KEY (number) REFERENCES stored.images(number) ON DELETE CASCADE;


--
-- Name: labels labels_number_fkey; Type: FK CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.labels
    ADD CONSTRAINT labels_number_fkey FOREIGN KEY (number) REFERENCES stored.images(number) ON DELETE CASCADE;


--
-- Name: thumbnails thumbnails_number_fkey; Type: FK CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.thumbnails
    ADD CONSTRAINT thumbnails_number_fkey FOREIGN KEY (number) REFERENCES stored.images(number) ON DELETE CASCADE;


--
-- Name: vectors vectors_number_fkey; Type: FK CONSTRAINT; Schema: stored; Owner: -
--

ALTER TABLE ONLY stored.vectors
    ADD CONSTRAINT vectors_number_fkey FOREIGN KEY (number) REFERENCES stored.images(number) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--


