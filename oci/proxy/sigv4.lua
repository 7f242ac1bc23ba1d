-- Signs requests to AWS anew, for haproxy 2.6 and newer (AWS Signature Version 4, "Create a signed AWS API request").
--
-- A program inside signs with the placeholder. `verify_signature` computes the same signature from the request as it
-- arrived, so that both sides agree on its canonical form; `sign` puts the signature with the host's key in its
-- place. A key is "AWS4-HMAC-SHA256 ID SECRET" or "AWS4-HMAC-SHA256 ID SECRET SESSION-TOKEN", as the maps have it.

local ALGORITHM = "AWS4-HMAC-SHA256"
local SKEW = 900 -- seconds by which AWS lets the time of a request differ
local TOKEN, DATE, PAYLOAD = "x-amz-security-token", "x-amz-date", "x-amz-content-sha256"

-- Parameters by which a query is signed, also by older versions: they could be another account's.
local SIGNING = { awsaccesskeyid = true, signature = true }
for _, name in ipairs({ "algorithm", "credential", "date", "expires", "security-token", "signature", "signedheaders" }) do
    SIGNING["x-amz-" .. name] = true
end

local function key_of(value)
    local id, secret, token = (value or ""):match("^AWS4%-HMAC%-SHA256 (%S+) (%S+) ?(%S*)$")
    return id and { id = id, secret = secret, token = token }
end

local function hex(bytes)
    return (bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

local function digest(txn, text)
    return hex(txn.c:sha2(text, 256))
end

local function hmac(txn, key, text)
    return txn.c:hmac(text, "sha256", txn.c:base64(key))
end

-- The only value of a header; nil for none and for several.
local function single(headers, name)
    local values = headers[name]
    return values and not values[1] and values[0] or nil
end

-- The parts of a header `Authorization`; nil for one of another form.
local function parsed(text)
    local credential, signed, signature =
        (text or ""):match("^AWS4%-HMAC%-SHA256 Credential=([^, ]+), *SignedHeaders=([^, ]+), *Signature=([0-9a-f]+)$")
    local id, date, region, service = (credential or ""):match("^([^/]+)/(%d+)/([%w-]+)/([%w-]+)/aws4_request$")
    if not id then
        return nil
    end
    local names = {}
    for name in signed:gmatch("[^;]+") do
        names[#names + 1] = name
    end
    local words = { date, region, service, "aws4_request" }
    return { id = id, date = date, names = names, signature = signature, words = words, scope = table.concat(words, "/") }
end

-- The parameters of a query in their order; nil if one of them is part of a signature.
local function canonical_query(query)
    local found = {}
    for part in query:gmatch("[^&]+") do
        local name, value = part:match("^([^=]*)=?(.*)$")
        local plain = name:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end)
        if SIGNING[plain:lower()] then
            return nil
        end
        found[#found + 1] = { name, value }
    end
    table.sort(found, function(one, other)
        return one[1] < other[1] or one[1] == other[1] and one[2] < other[2]
    end)
    for at, each in ipairs(found) do
        found[at] = each[1] .. "=" .. each[2]
    end
    return table.concat(found, "&")
end

-- All services but S3 escape a path once more.
local function escaped(path)
    return (path:gsub("[^%w/._~-]", function(byte) return ("%%%02X"):format(byte:byte()) end))
end

-- The canonical headers, and their names; nil if one is not there.
local function canonical_headers(headers, names)
    local lines = {}
    for at, name in ipairs(names) do
        local values, found = headers[name], {}
        if not values then
            return nil
        end
        for number = 0, #values do
            found[#found + 1] = values[number]:match("^%s*(.-)%s*$"):gsub("%s+", " ")
        end
        lines[at] = name .. ":" .. table.concat(found, ",") .. "\n"
    end
    return table.concat(lines) .. "\n" .. table.concat(names, ";")
end

local function signature(txn, key, given, date, path, query, headers, payload)
    local request = table.concat({ txn.f:method(), path, query, headers, payload }, "\n")
    local text = table.concat({ ALGORITHM, date, given.scope, digest(txn, request) }, "\n")
    local derived = "AWS4" .. key.secret
    for _, word in ipairs(given.words) do
        derived = hmac(txn, derived, word)
    end
    return hex(hmac(txn, derived, text))
end

-- The digest of the body as the client declares it, or of the body itself. nil for a body that is signed in chunks,
-- and for one that haproxy has not as a whole.
local function payload_of(txn, headers)
    if headers[PAYLOAD] then
        local declared = single(headers, PAYLOAD) or ""
        local known = declared == "UNSIGNED-PAYLOAD" or declared == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
        return (known or declared:match("^%x+$") and #declared == 64) and declared or nil
    end
    local body = txn.f:req_body() or ""
    local length = headers["content-length"] and single(headers, "content-length") or "0"
    return tonumber(length) == #body and digest(txn, body) or nil
end

-- Whether a request is signed with the placeholder. Remembers what `sign` needs.
local function verified(txn, number)
    local key = key_of(txn:get_var("txn.placeholder_" .. number))
    local headers = txn.http:req_get_headers()
    local given = parsed(single(headers, "authorization"))
    local date, query = single(headers, DATE), canonical_query(txn.f:query() or "")
    if not key or not given or not date or not query or given.id ~= key.id then
        return false
    end
    local now = core.now().sec
    local first, last = os.date("!%Y%m%dT%H%M%SZ", now - SKEW), os.date("!%Y%m%dT%H%M%SZ", now + SKEW)
    if date < first or date > last or #date ~= #first or date:sub(1, 8) ~= given.date then
        return false
    end
    if (headers[TOKEN] and single(headers, TOKEN) or "") ~= key.token then
        return false
    end
    local lines, payload = canonical_headers(headers, given.names), payload_of(txn, headers)
    if not lines or not payload or not (";" .. table.concat(given.names, ";") .. ";"):find(";host;", 1, true) then
        return false
    end
    txn:set_var("txn.payload", payload)
    for _, path in ipairs({ txn.f:path(), escaped(txn.f:path()) }) do
        if signature(txn, key, given, date, path, query, lines, payload) == given.signature then
            txn:set_var("txn.canonical_path", path)
            return true
        end
    end
    return false
end

core.register_action("verify_signature", { "http-req" }, function(txn, number)
    if verified(txn, number) then
        txn:set_var("txn.verified", true)
    end
end, 1)

-- Sign what is sent on: the headers that were signed and are still there, and the session's token.
core.register_action("sign", { "http-req" }, function(txn, number)
    local key = key_of(txn:get_var("txn.secret_" .. number))
    local given = parsed(txn.http:req_get_headers()["authorization"][0])
    txn.http:req_del_header(TOKEN)
    if key.token ~= "" then
        txn.http:req_set_header(TOKEN, key.token)
    end
    local headers, names = txn.http:req_get_headers(), {}
    for _, name in ipairs(given.names) do
        if headers[name] and name ~= TOKEN then
            names[#names + 1] = name
        end
    end
    if key.token ~= "" then
        names[#names + 1] = TOKEN
    end
    table.sort(names)
    local made = signature(
        txn, key, given, headers[DATE][0], txn:get_var("txn.canonical_path"), canonical_query(txn.f:query() or ""),
        canonical_headers(headers, names), txn:get_var("txn.payload")
    )
    txn.http:req_set_header("authorization", ALGORITHM .. " Credential=" .. key.id .. "/" .. given.scope
        .. ", SignedHeaders=" .. table.concat(names, ";") .. ", Signature=" .. made)
end, 1)
